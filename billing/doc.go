// Package billing says who pays, whether work may start, and what it cost.
//
// [Gate] is what a runner of work sees: it asks before anything wakes, and
// accounts for the time used when the work is done. [Free] lets everything
// through, and whatever reports on work says so.
//
// Values of this package are safe for concurrent use.
package billing
