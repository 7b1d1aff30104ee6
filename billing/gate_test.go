package billing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func ExampleFree() {
	var gate billing.Gate = billing.Free{}
	ticket, err := gate.Admit(context.Background(), billing.Intent{ID: "hold-1", Payer: "ada", Meter: billing.MeterRuntime})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ticket.Intent.ID, ticket.Free, ticket.Until.IsZero())
	// Output: hold-1 true true
}

// TestFree runs the default gate through what the Gate promises.
func TestFree(t *testing.T) {
	ctx := t.Context()
	var gate billing.Gate = billing.Free{}
	in := billing.Intent{ID: "hold-1", Payer: "payer-1", Session: "session-1", Meter: billing.MeterRuntime, TTL: time.Minute}

	ticket, err := gate.Admit(ctx, in)
	if want := (billing.Ticket{Intent: in, Free: true}); err != nil || ticket != want {
		t.Fatalf("admit: %+v, %v; want %+v, which is free and never expires", ticket, err, want)
	}
	if again, err := gate.Admit(ctx, in); err != nil || again != ticket {
		t.Errorf("the same id twice is one admission: %+v, %v", again, err)
	}
	if other, err := gate.Admit(ctx, billing.Intent{ID: "hold-2"}); err != nil || other.Intent.ID != "hold-2" || !other.Free {
		t.Errorf("another: %+v, %v", other, err)
	}

	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for n, u := range []billing.Usage{
		{From: start, To: start.Add(time.Minute)},
		{From: start, To: start.Add(time.Minute)}, // the same span again
		{From: start.Add(time.Minute), To: start.Add(24 * time.Hour), Last: true},
	} {
		next, err := gate.Settle(ctx, ticket, u)
		if err != nil || next != ticket {
			t.Fatalf("settle %d: %+v, %v; want the ticket as it was", n, next, err)
		}
	}
	for range 2 {
		if err := gate.Release(ctx, ticket); err != nil {
			t.Errorf("release: %v", err)
		}
	}
}

// A context that has ended stops no accounting that is free.
func TestFreeNeedsNoContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ticket, err := billing.Free{}.Admit(ctx, billing.Intent{ID: "hold-1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (billing.Free{}).Settle(ctx, ticket, billing.Usage{Last: true}); err != nil {
		t.Error(err)
	}
	if err := (billing.Free{}).Release(ctx, ticket); err != nil {
		t.Error(err)
	}
}

func TestRefusedError(t *testing.T) {
	one := &billing.RefusedError{Payer: "payer-1", Decision: billing.AdmitDecision{Reason: billing.RefusedCredit}}
	other := &billing.RefusedError{Payer: "payer-2", Decision: billing.AdmitDecision{Reason: billing.RefusedDailyCap}}
	if text := one.Error(); !strings.Contains(text, "payer-1") || !strings.Contains(text, "out of credit") {
		t.Errorf("for logs: %s", text)
	}
	status, code, sentence := one.Problem()
	if status != 402 || code != "payment_required" || sentence == "" {
		t.Errorf("%d %s %q", status, code, sentence)
	}
	if s2, c2, t2 := other.Problem(); s2 != status || c2 != code || t2 != sentence {
		t.Error("a client can tell one payer, or one reason, from another")
	}
	if strings.Contains(sentence, "payer-1") || strings.Contains(sentence, "out of credit") {
		t.Errorf("the sentence tells what is for logs: %s", sentence)
	}
}
