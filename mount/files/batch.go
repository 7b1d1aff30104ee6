package files

import (
	"context"
	"sync"
)

// maxFailures is how many failures a report names.
const maxFailures = 100

// Report is what became of an operation on many files.
type Report struct {
	Done     int // objects, markers of directories among them
	Failed   int
	Failures []Failure // the first 100
}

// Failure is one object that an operation was not done to.
type Failure struct {
	Path string
	Err  error
}

// Progress is how far an operation is. Total is 0 where it is not known before the end.
type Progress struct{ Done, Failed, Total int }

// batch does something to many objects, a few at once.
type batch struct {
	path  string
	total int
	tell  func(Progress)

	mu     sync.Mutex
	report Report
}

// run calls do for each path that produce yields, and goes on after a failure.
// It ends early, with an error, where ctx has ended or produce fails.
func (b *batch) run(ctx context.Context, produce func(yield func(path string) bool) error, do func(ctx context.Context, path string) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, fan)
	err := produce(func(path string) bool {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		wg.Go(func() {
			defer func() { <-slots }()
			b.note(path, do(ctx, path))
		})
		return true
	})
	wg.Wait()
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}

func (b *batch) note(path string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.report.Done++
	} else {
		b.report.Failed++
		if len(b.report.Failures) < maxFailures {
			b.report.Failures = append(b.report.Failures, Failure{path, err})
		}
	}
	if b.tell != nil {
		b.tell(Progress{b.report.Done, b.report.Failed, b.total})
	}
}

// end is the answer of the operation, where it ended for cause or for nil.
func (b *batch) end(cause error) (Report, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cause != nil || b.report.Failed > 0 {
		return b.report, &PartialError{Path: b.path, Report: b.report, Cause: cause}
	}
	return b.report, nil
}
