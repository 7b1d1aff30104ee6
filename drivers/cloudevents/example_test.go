package cloudevents_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/cloudevents"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

func ExampleNew() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Header.Get("Content-Type"))
		fmt.Println(string(body[:75]))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer service.Close()

	exporter, err := cloudevents.New(cloudevents.Config{URL: service.URL, Source: "https://app.example.com/bunkroom"})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	ledger := memory.New(nil).Ledger()
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if _, err := ledger.Post(ctx, billing.Post{
		Use:  billing.Use{Meter: billing.MeterRuntime, Resource: "work-1", Payer: "ann"},
		From: from, To: from.Add(time.Minute), Quantity: 60_000_000, Rate: billing.Rate{Price: 1, Per: 1_000_000},
	}); err != nil {
		fmt.Println(err)
		return
	}
	report, err := billing.Deliver(ctx, ledger, exporter)
	fmt.Println(report.Delivered, err)
	// Output:
	// application/cloudevents-batch+json; charset=utf-8
	// [{"specversion":"1.0","id":"usage/runtime/work-1/1772366400000000","source"
	// 1 <nil>
}
