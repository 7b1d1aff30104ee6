// Package files is the contents of durable folders: browse, edit, upload and
// export what mounts hold, straight in object storage, whether or not a
// sandbox runs.
//
//	fs, err := files.New(files.Config{Bucket: bucket})
//	if err != nil { … }
//	folder, err := fs.Folder(row)                 // a mount.Row; access was decided before
//	if err != nil { … }
//	level, err := folder.Level(ctx, "", &files.LevelOptions{View: files.ViewGit, Counts: true})
//	recent, err := folder.List(ctx, "", &files.ListOptions{View: files.ViewGit, Order: files.Recent, Limit: 5})
//	written, err := folder.Write(ctx, "notes/plan.md", r.Body, &files.WriteOptions{IfMatch: etag})
//
// # Keys
//
// A folder's objects have the keys [namespace/]mounts/<scope>/<mount id>/<path>.
// [mount.Prefix] is computed in one place and fails closed; a path can't leave it. A
// path has no leading slash, no control characters, and no segment that is
// empty, "." or ".."; every other name is allowed. An explicit empty folder is
// an object of no bytes whose key ends with a slash, its marker.
//
// # Who else writes
//
// Agents write the same objects through their mounts, at the same time. What is
// written here is seen in a sandbox when its caches expire. Unconditional
// writes are "last writer wins"; conditional ones are exact or refused with an
// [*UnsupportedError], never done by luck: see [Config] and [Files.Probe].
//
// Who is to be the only writer of a folder takes its [Lock], an object beside
// all folders by which one at a time is let in, and [Config].Quota bounds what a
// folder holds. Both bind those who ask: agents' mounts don't.
//
// # Undo
//
// Nothing here keeps what was overwritten or deleted. A bucket can: with its versioning on, as S3 has it,
// each write keeps what was there before, by whomever and through mounts too, and a deletion only hides. Who may read
// versions of the bucket, which no agent may, brings a file back by
// removing the mark of its deletion or copying an older version over it; mounts show it once their caches expire.
// Who turns that on does two things more. [Config].Unversion makes a purge remove what is hidden:
// without it a deleted folder stays in the bucket for good. And a lifecycle rule of the bucket bounds how long undo lasts, and what it costs: below
// "[namespace/]mounts/" it expires noncurrent versions after some days, and deletion marks with nothing behind them. Every
// change of a small file is a version, and so is every renewal of a [Lock].
//
// Nothing is read into memory whole but small texts and ignore files. Lists
// stop at limits, and say so.
//
// A bucket of plain files (fileblob) follows symbolic links. Never open one over
// directories that agents write into: a link of theirs would lead out of it.
//
// Values of this package are safe for concurrent use. Contexts bound the
// storage calls; where one has ended, its error is returned as it is.
package files
