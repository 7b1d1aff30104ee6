package bunkroom_test

import (
	"os"
	"strings"
	"testing"
)

// The README's program is the one that runs as an example, to the line.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, _, _ = strings.Cut(body, "\t// Output:")
	body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
	if strings.TrimSpace(shown) != strings.TrimSpace(body) || shown == "" {
		t.Errorf("the README shows\n%s\nand the example is\n%s", shown, body)
	}
}
