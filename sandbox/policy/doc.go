// Package policy decides what an agent's commands may ask for, and how what
// they said is shown: pure functions, which a host or an agent's tools call
// before and after they use a sandbox.
//
//   - [Commands] refuses a script before it is started, with a sentence that
//     an agent can act on;
//   - [Path] takes a path as a model writes it to a relative one, or refuses it;
//   - [Limits] bounds the time, the variables and the output of a command;
//   - [Text], [Excerpt] and [Present] show output within so many bytes, and say of
//     what looks like instructions that it is none;
//   - [Egress] is whom a sandbox may talk to: the rules that a provider's
//     network is given, and the decisions of a proxy in front of it.
//
// None of it is a boundary, but for what a proxy or a provider enforces of an
// [Egress]. A script can be written so that no reading of its text tells what
// it does. What confines is the sandbox: see sandbox.Caps.
package policy
