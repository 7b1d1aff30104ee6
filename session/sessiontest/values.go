package sessiontest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// fill sets every field below v, which is a pointer, to a value of its own
// that is not zero, so that a field that a store forgets shows. Texts begin
// with seed, moments are near at, which is cut to the store's precision, and in no particular zone.
func fill(v any, seed string, at time.Time, precision time.Duration) {
	n := 0
	var set func(path string, v reflect.Value)
	set = func(path string, v reflect.Value) {
		n++
		switch v.Interface().(type) {
		case time.Time:
			zone := time.FixedZone("", n*60)
			v.Set(reflect.ValueOf(at.Truncate(precision).Add(time.Duration(n) * precision).In(zone)))
			return
		case time.Duration:
			v.SetInt(int64(time.Duration(n) * time.Minute))
			return
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(fmt.Sprintf("%s %s ü%d", seed, path, n))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			v.SetUint(uint64(n))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range v.Len() {
				set(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				set(strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), v.Field(i))
			}
		default:
			panic(fmt.Sprintf("sessiontest: no value for %s of type %v", path, v.Type()))
		}
	}
	set("", reflect.ValueOf(v).Elem())
}

// diff tells where got differs from want, a line for each place; "" = nowhere.
// Moments are equal where they are the same moment, and got's must be in UTC.
func diff(got, want any) string {
	var lines []string
	note := func(path string, got, want any) {
		lines = append(lines, fmt.Sprintf("\t%s: got %#v, want %#v", strings.TrimPrefix(path, "."), got, want))
	}
	var walk func(path string, g, w reflect.Value)
	walk = func(path string, g, w reflect.Value) {
		if g.Type() != w.Type() {
			note(path+" type", g.Type().String(), w.Type().String())
			return
		}
		if gt, ok := g.Interface().(time.Time); ok {
			if wt := w.Interface().(time.Time); !gt.Equal(wt) {
				note(path, gt.Format(time.RFC3339Nano), wt.Format(time.RFC3339Nano))
			} else if _, offset := gt.Zone(); offset != 0 {
				note(path+" zone", gt.Format(time.RFC3339Nano), "UTC")
			}
			return
		}
		switch g.Kind() {
		case reflect.Struct:
			for i := range g.NumField() {
				walk(path+"."+g.Type().Field(i).Name, g.Field(i), w.Field(i))
			}
		case reflect.Slice:
			if g.Len() != w.Len() {
				note(path+" length", g.Len(), w.Len())
				return
			}
			for i := range g.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), g.Index(i), w.Index(i))
			}
		default:
			if !g.Equal(w) {
				note(path, g.Interface(), w.Interface())
			}
		}
	}
	walk("", reflect.ValueOf(got), reflect.ValueOf(want))
	return strings.Join(lines, "\n")
}
