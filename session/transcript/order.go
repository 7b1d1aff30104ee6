package transcript

import (
	"cmp"
	"slices"
)

// orderBits is how often something can be put between the same two inputs
// before those that wait are numbered anew.
const orderBits = 20

// order is the Order of what comes with a seq: behind all that is there,
// however that was moved, since each move takes a seq.
func order(seq int64) int64 { return seq << orderBits }

// Place is the Order that an input has once it is moved there. waiting are all
// that wait in the transcript. False: the input named does not wait in the
// same lane, or is the one that is to be moved. Where there is no order left
// between two, all that wait are numbered anew, in the order they have: then
// renumbered is waiting, sorted, with that.
func (m Move) Place(moved Input, waiting []Input) (at int64, renumbered []Input, ok bool) {
	all := slices.Clone(waiting)
	Sort(all)
	all = slices.DeleteFunc(all, func(in Input) bool { return in.Entry.ID == moved.Entry.ID })
	i := slices.IndexFunc(all, func(in Input) bool { return in.Entry.ID == m.Before+m.After })
	if i < 0 || all[i].Lane != moved.Lane {
		return 0, nil, false
	}
	if m.After != "" {
		i++ // what it comes before then
	}
	if at, ok = between(all, i); ok {
		return at, nil, true
	}
	for n := range all {
		all[n].Order = order(int64(n + 1))
	}
	at, _ = between(all, i)
	return at, all, true
}

// between is an order between the neighbours at i.
func between(all []Input, i int) (int64, bool) {
	switch {
	case i == len(all):
		return all[i-1].Order + order(1), true
	case i == 0:
		return all[0].Order - order(1), true
	}
	low, high := all[i-1].Order, all[i].Order
	at := low + (high-low)/2
	return at, low < at && at < high
}

// Sort sorts inputs by (Order, Admitted).
func Sort(inputs []Input) {
	slices.SortFunc(inputs, func(a, b Input) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Admitted, b.Admitted))
	})
}
