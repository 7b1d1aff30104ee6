package geesefs

// Limits are what a folder can't keep as a local directory would. A field that
// is true is a loss.
type Limits struct {
	LosesSymlinks   bool // a symbolic link may show as an empty file after the folder is mounted anew
	LosesAttributes bool // so may modes, owners and times as the defaults
	NoHardLinks     bool
	NoDatabases     bool // SQLite hangs, or is corrupted by a second host
}

// FolderLimits are those of every folder that this package serves from a plain S3 server.
func FolderLimits() Limits {
	return Limits{LosesSymlinks: true, LosesAttributes: true, NoHardLinks: true, NoDatabases: true}
}
