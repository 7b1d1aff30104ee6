// Command host is the process that the tests of internal/crash kill. It sets
// a scene, plays a story in it, and dies where it is told to; or it is the
// next process, which cleans up and works on.
//
//	host -play end -root DIR -events FILE -sqlite FILE [-die "commit 1 after"]
//	host -recover end -root DIR -events FILE -sqlite FILE < scene
//	host -talk append -sqlite FILE [-die "commit 1 after"]
//
// It says what it does on its standard output, a JSON object a line.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// patience bounds everything that the process does.
const patience = 2 * time.Minute

func main() {
	var o options
	flag.StringVar(&o.play, "play", "", "the story to play")
	flag.StringVar(&o.recover, "recover", "", "the story that was being played")
	flag.StringVar(&o.talk, "talk", "", "or the story of transcripts to tell, in a database that was migrated")
	flag.StringVar(&o.root, "root", "", "the directory of the machines")
	flag.StringVar(&o.sqlite, "sqlite", "", "the database's file")
	flag.StringVar(&o.postgres, "postgres", "", "or its data source name")
	flag.StringVar(&o.events, "events", "", "the file of meter events")
	flag.StringVar(&o.die, "die", "", "the place to die at")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, o); err != nil {
		say(message{Fault: err.Error()})
		os.Exit(1)
	}
}

type options struct {
	play, recover    string
	talk             string
	root             string
	sqlite, postgres string
	events, die      string
}

// message is one line that the process says.
type message struct {
	Scene     *scene    `json:"scene,omitempty"` // everything is set; the story begins
	At        string    `json:"at,omitempty"`    // a place of the story: "commit 2 after"
	When      time.Time `json:"when,omitzero"`   // it was passed, on the database's clock
	Told      *told     `json:"told,omitempty"`
	Done      bool      `json:"done,omitempty"`      // the story has come to its end
	TakenOver bool      `json:"takenOver,omitempty"` // nothing of the turn before runs
	Recovered bool      `json:"recovered,omitempty"` // nothing is left to do
	Used      []visit   `json:"used,omitempty"`      // what working on has shown
	Fault     string    `json:"fault,omitempty"`
}

func say(m message) {
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		panic(err) // whom to tell?
	}
}

func run(ctx context.Context, o options) error {
	if o.talk != "" {
		return tell(ctx, o)
	}
	name := o.play + o.recover
	s, ok := stories()[name]
	if !ok || (o.play == "") == (o.recover == "") {
		return fmt.Errorf("no story %q", name)
	}
	replica := "first"
	if o.recover != "" {
		replica = "next"
	}
	w, err := newWorld(ctx, o, replica, s)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.start(ctx); err != nil {
		return err
	}
	if o.recover != "" {
		return w.recover(ctx)
	}
	sc := &scene{}
	if err := s.arrange(ctx, w, sc); err != nil {
		return fmt.Errorf("arranging %s: %w", name, err)
	}
	say(message{Scene: sc})
	w.places.arm(o.die)
	if err := s.act(ctx, w, sc); err != nil {
		return fmt.Errorf("playing %s: %w", name, err)
	}
	say(message{Done: true})
	return nil
}
