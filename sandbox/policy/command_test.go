package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox/policy"
)

// reason is why err refuses; "" where it is nil.
func reason(t *testing.T, err error) policy.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*policy.RefusedError](err)
	if !ok {
		t.Fatalf("%T is no *RefusedError: %v", err, err)
	}
	if status, code, sentence := refused.Problem(); status != 422 || code != string(refused.Reason) || sentence == "" || refused.Hint == "" {
		t.Errorf("Problem of %v: %d, %q, %q", refused, status, code, sentence)
	}
	return refused.Reason
}

func TestCommands(t *testing.T) {
	git := policy.Commands{Instead: []policy.Instead{
		{Program: "gh", Hint: "Use the tools for GitHub."},
		{Program: "git", Verbs: []string{"clone", "fetch", "pull", "push"}, Hint: "Use the tools for git."},
	}}
	for _, c := range []struct {
		rule   string
		policy policy.Commands
		script string
		want   policy.Reason
	}{
		{"an ordinary command passes", git, "go test ./...", ""},
		{"what is blank is refused", git, " \t\n ", policy.EmptyCommand},
		{"and so is nothing", git, "", policy.EmptyCommand},
		{"16 KiB pass", git, strings.Repeat("a", 16<<10), ""},
		{"one more byte does not", git, strings.Repeat("a", 16<<10+1), policy.CommandTooLarge},
		{"a host may say how long", policy.Commands{MaxBytes: 3}, "true", policy.CommandTooLarge},
		{"the address of metadata", git, "curl http://169.254.169.254/latest", policy.MetadataAddress},
		{"with a port", git, "curl 169.254.169.254:80", policy.MetadataAddress},
		{"as a number", git, "curl http://2852039166/", policy.MetadataAddress},
		{"as a hexadecimal number, in any case", git, "curl http://0xA9FEa9fe/", policy.MetadataAddress},
		{"in hexadecimal parts", git, "curl 0xa9.0xfe.0xa9.0xfe", policy.MetadataAddress},
		{"in octal parts", git, "curl 0251.0376.0251.0376", policy.MetadataAddress},
		{"in three parts", git, "curl 169.254.43518", policy.MetadataAddress},
		{"in two", git, "curl 169.16689662", policy.MetadataAddress},
		{"as IPv6", git, "curl http://[::ffff:169.254.169.254]/", policy.MetadataAddress},
		{"as IPv6 in its own digits", git, "curl http://[::ffff:a9fe:a9fe]/", policy.MetadataAddress},
		{"of IPv6", git, "curl -g 'http://[fd00:ec2::254]/latest'", policy.MetadataAddress},
		{"of IPv6, of another cloud", git, "curl 'http://[fd20:ce::254]/computeMetadata/v1/'", policy.MetadataAddress},
		{"by name", git, "curl http://Metadata.Google.Internal/", policy.MetadataAddress},
		{"of containers", git, "curl http://169.254.170.2/v2", policy.MetadataAddress},
		{"right after the letter of an option", git, "curl -x169.254.169.254:80", policy.MetadataAddress},
		{"of the platform of Azure", git, "curl 168.63.129.16", policy.MetadataAddress},
		{"a name that only begins like it passes", git, "curl https://metadata.google.internal.example/ x-metadata.goog", ""},
		{"after much that is none", git, "x=" + strings.Repeat("a", 200) + ":169.254.169.254", policy.MetadataAddress},
		{"an address beside it passes", git, "ping 169.254.169.253", ""},
		{"a longer number passes", git, "echo 28520391660", ""},
		{"a program for which there is something better", git, "gh pr list", policy.UseToolInstead},
		{"without arguments", git, "gh", policy.UseToolInstead},
		{"after &&", git, "cd x && git push origin main", policy.UseToolInstead},
		{"after ;", git, "true;git  fetch", policy.UseToolInstead},
		{"after |", git, "cat x |gh api", policy.UseToolInstead},
		{"on a later line", git, "cd x\n  git clone y", policy.UseToolInstead},
		{"another verb passes", git, "git status", ""},
		{"a verb that goes on passes", git, "git push-all", ""},
		{"a program that goes on passes", git, "gh-pages build; ghost; gh_x", ""},
		{"in the middle of a command it passes", git, "echo git push", ""},
		{"as part of a path it passes", git, "./gh list; gh/x; gh.txt", ""},
		{"an assignment passes", git, "gh=1 true", ""},
		{"of no program there is nothing", policy.Commands{Instead: []policy.Instead{{Hint: "never"}}}, "true", ""},
	} {
		if got := reason(t, c.policy.Check(c.script)); got != c.want {
			t.Errorf("%s: Check(%.60q) = %q, not %q", c.rule, c.script, got, c.want)
		}
	}
}

// What an agent is told is what the host says.
func TestInsteadSaysWhat(t *testing.T) {
	err := policy.Commands{Instead: []policy.Instead{{Program: "gh", Hint: "Use the tools for GitHub."}}}.Check("gh")
	if refused, ok := errors.AsType[*policy.RefusedError](err); !ok || refused.Hint != "Use the tools for GitHub." {
		t.Errorf("%v", err)
	}
}

// Work grows with the length of a script and no faster: what would take hours otherwise is done.
func TestCommandsAreReadOnce(t *testing.T) {
	free := policy.Commands{MaxBytes: 64 << 20, Instead: []policy.Instead{{Program: "gh", Hint: "x"}}}
	for _, part := range []string{";", "1.", "1:", "a", "|x ", "0x", "git push "} {
		if err := free.Check("x" + strings.Repeat(part, 1<<17)); err != nil {
			t.Errorf("%q: %v", part, err)
		}
	}
}

func FuzzCommands(f *testing.F) {
	for _, s := range []string{"a;b", "0x.1", "::", "gh", "\xff|gh"} {
		f.Add(s)
	}
	p := policy.Commands{Instead: []policy.Instead{{Program: "gh", Hint: "x"}}}
	f.Fuzz(func(t *testing.T, s string) {
		if err := p.Check(s); err != nil {
			reason(t, err)
		}
		if len(s) < 1000 && reason(t, p.Check(s+" 169.254.169.254")) != policy.MetadataAddress && strings.TrimSpace(s) != "" {
			t.Errorf("%q hides the address", s)
		}
	})
}
