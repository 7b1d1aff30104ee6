package transcript

import (
	"encoding/json"
	"maps"
)

// State is what the state changes on a path add up to.
type State map[string]json.RawMessage

// Fold is the state after deltas, oldest first, that begin with nothing.
func Fold(deltas ...StateDelta) State {
	s := State{}
	for _, d := range deltas {
		if d.Whole {
			clear(s)
		}
		for _, key := range d.Delete {
			delete(s, key)
		}
		maps.Copy(s, d.Set)
	}
	return s
}
