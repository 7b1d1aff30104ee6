// Package billing says who pays, whether work may start, and what it cost.
//
// [Gate] is what a runner of work sees: it asks before anything wakes, and
// accounts for the time used while the work goes on and when it is done. [Free]
// lets everything through, and whatever reports on work says so. [Till] is the
// gate to a [Ledger]: it places a hold, charges what is used by a price list
// ([Tariffs]), and has the host's [Terms] decide whether the account may go on.
// It is a [Sweeper] too: what nobody renewed, and what has expired, is ended now and then.
//
// The rules are pure, and every amount is an integer. [RuntimePayer] and
// [StoragePayer] say who pays, [Rate.Charge] what a quantity costs (what is left
// of a micro is carried, so that parts sum to the whole), [Admit] whether an account
// may start work, [Burn] which of its grants pay, [StorageCharge] what storage is to be
// charged. [Book] is all of accounting on top of them: holds that are open and then
// settled, released or expired; entries whose postings sum to zero; watermarks that
// move on by compare-and-set, so that no span is charged twice or left out.
//
// A [Ledger] keeps the books, in the host's own database. Every usage entry is a
// meter event as well: [Deliver] hands them to an [Exporter] at least once, with
// ids that never change. [Verify] folds an account's book and compares.
//
// Values of this package are safe for concurrent use unless they say otherwise.
package billing
