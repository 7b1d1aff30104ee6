package billingtest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// diff tells where got differs from want, a line for each place; "" = nowhere.
// Moments are equal where they are the same moment, give or take slack, and
// got's must be in UTC. Of errors it is what they say that counts.
func diff(got, want any, slack time.Duration) string {
	var lines []string
	note := func(path string, got, want any) {
		lines = append(lines, fmt.Sprintf("\t%s: got %v, want %v", strings.TrimPrefix(path, "."), got, want))
	}
	var walk func(path string, g, w reflect.Value)
	walk = func(path string, g, w reflect.Value) {
		switch gt := g.Interface().(type) {
		case time.Time:
			wt := w.Interface().(time.Time)
			if gt.IsZero() != wt.IsZero() || gt.Sub(wt).Abs() > slack {
				note(path, gt.Format(time.RFC3339Nano), wt.Format(time.RFC3339Nano))
			} else if _, offset := gt.Zone(); offset != 0 {
				note(path+" zone", gt.Format(time.RFC3339Nano), "UTC")
			}
			return
		case error:
			if we, _ := w.Interface().(error); outcome(gt) != outcome(we) {
				note(path, outcome(gt), outcome(we))
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
		case reflect.Interface, reflect.Pointer:
			if g.IsNil() != w.IsNil() {
				note(path, g.Interface(), w.Interface())
			} else if !g.IsNil() {
				walk(path, g.Elem(), w.Elem())
			}
		default:
			if !g.Equal(w) {
				note(path, g.Interface(), w.Interface())
			}
		}
	}
	if reflect.TypeOf(got) != reflect.TypeOf(want) {
		return fmt.Sprintf("\tgot a %T, want a %T", got, want)
	}
	walk("", reflect.ValueOf(got), reflect.ValueOf(want))
	return strings.Join(lines, "\n")
}
