//go:build !linux

package sqlite

// networkFS knows no network file systems here: it is for the operator to keep the file off them.
func networkFS(string) (string, error) { return "", nil }
