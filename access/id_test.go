package access_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

func TestCheckID(t *testing.T) {
	for _, c := range []struct {
		says, id string
		ok       bool // required and optional alike, but for the empty one
	}{
		{"one byte", "a", true},
		{"256 bytes", strings.Repeat("a", 256), true},
		{"257 bytes", strings.Repeat("a", 257), false},
		{"256 bytes of two-byte letters", strings.Repeat("é", 128), true},
		{"258 bytes of 129 letters", strings.Repeat("é", 129), false},
		{"spaces and signs are the host's affair", " a/b\n", true},
		{"not UTF-8", "a\xff", false},
		{"a NUL", "a\x00b", false},
		{"a NUL alone", "\x00", false},
	} {
		required, optional := access.CheckID("Project", access.ProjectID(c.id)), access.CheckOptionalID("Project", access.ProjectID(c.id))
		for _, err := range []error{required, optional} {
			if c.ok && err != nil || !c.ok && !isField(err, "Project") {
				t.Errorf("%s: %v", c.says, err)
			}
		}
	}
	if err := access.CheckID("Project", access.ProjectID("")); !isField(err, "Project") {
		t.Errorf("empty and required: %v", err)
	}
	if err := access.CheckOptionalID("Project", access.ProjectID("")); err != nil {
		t.Errorf("empty and optional: %v", err)
	}
}

func isField(err error, field string) bool {
	var f *access.FieldError
	return errors.As(err, &f) && f.Field == field && f.Rule != ""
}

func TestCheckName(t *testing.T) {
	long := strings.Repeat("é", 120)
	for _, c := range []struct {
		says, name, want string
		ok               bool
	}{
		{"empty means no name", "", "", true},
		{"blank means no name", " \t\n ", "", true},
		{"trimmed", "\t two words \n", "two words", true},
		{"space of other alphabets", "\u00a0name\u3000", "name", true},
		{"120 characters", long, long, true},
		{"120 characters and space around", "  " + long + "  ", long, true},
		{"121 characters are refused, never cut", long + "x", "", false},
		{"not UTF-8", "a\xff", "", false},
		{"a NUL", "a\x00b", "", false},
		{"a NUL among the space around", "a\x00", "", false},
	} {
		got, err := access.CheckName("Name", c.name)
		if got != c.want || c.ok != (err == nil) || !c.ok && !isField(err, "Name") {
			t.Errorf("%s: %q, %v", c.says, got, err)
		}
	}
}

func TestFieldErrorTellsNoValue(t *testing.T) {
	value := strings.Repeat("secret", 50)
	err := access.CheckID("Owner", access.UserID(value))
	var f *access.FieldError
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	status, code, sentence := f.Problem()
	if status != 400 || code != "invalid_input" || !strings.Contains(sentence, "Owner") {
		t.Errorf("%d %s %q", status, code, sentence)
	}
	if strings.Contains(f.Error()+sentence, "secret") {
		t.Error("the value was told")
	}
}
