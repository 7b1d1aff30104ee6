// Package pijsonl reads the session files of pi, a coding agent, so that a
// conversation that was had there can be gone on with here.
//
//	file, err := pijsonl.Open(src, size, nil)
//	t, err := file.Import(ctx, db.Transcripts(), conversation)
//
// Such a file has a header and then one JSON object on each line: messages, compactions,
// summaries of branches, changes of the model, labels, and what extensions keep. Versions 1 to 3 of the form are
// read; of version 1, which is a list and no tree, each entry follows the one before it.
//
// # What becomes of it
//
// Each line becomes one entry, with the same id (in version 1 "line-" and its number), the same parent
// and, where the line is the last, the head. What of a line is not a part, a
// call, a summary or a sum of tokens here is in the entry's payload, an object with the line under "pi": nothing is lost but
// where the line stood, which its entry's place tells, and line breaks at the end of what a command has put out.
//
//   - What a user and the model say are messages with the same parts, thinking and images among them. What an extension has said
//     for the model, and commands that the user has run, are [transcript.KindContext].
//   - A call has its result, as {"content": …} of what the tool has answered; the first that there is in the file, if branches have
//     several. A call without one is interrupted. The entry of a result stays in its place,
//     hidden, with what the model was not given, as its details.
//   - A compaction keeps what pi would keep. What is not on its path it does not keep, and of a tail
//     that is repeated in it, it keeps the entries that the tail repeats, if these are all there right before it; else nothing.
//   - The last label of an entry is its label.
//   - What tokens were used is counted; a cost is taken as it is, in millionths.
//   - Changes of the model, of its tools and of how it thinks are [transcript.KindConfig].
//   - Everything else, and what this package does not know, is [transcript.KindHidden], as it was.
//
// # What is refused
//
// Pi leaves out the lines that it can't read. Here a conversation is whole or it is not there: a line that is no JSON, has no
// place in the tree, or has the id of another, is a *transcript.LineError that tells its number. [Options.Skip] has them left out.
//
// A file is read twice: [Open] finds out what stands where, which is all that is kept of it, and what is made of a
// line is read when its turn comes. So it takes about 200 bytes of memory for a line, what the ids of its calls take, and those of one entry.
package pijsonl
