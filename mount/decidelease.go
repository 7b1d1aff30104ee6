package mount

import "time"

// Bounds of a lease, for credentials that live for minutes or longer.
const (
	minMargin, maxMargin = 30 * time.Second, 2 * time.Minute
	minLead, maxLead     = time.Minute, 10 * time.Minute
	maxTry               = 10 * time.Second
	maxPause             = 15 * time.Second
)

// leastLife is the least that must be left of credentials for them to be worth installing.
const leastLife = time.Millisecond

// Lease says when credentials that expire are to be replaced. Its moments are
// in the order of its fields, the first no earlier than the now it was made for.
type Lease struct {
	// Renew is when the next credentials are to be asked for.
	Renew time.Time
	// Degraded is from when on it is said that they are still not there.
	Degraded time.Time
	// Reported is the expiry that who uses the credentials is told, so that it
	// asks for the next ones while these are still good for what it has begun.
	Reported time.Time
	// Expires is when the storage refuses them.
	Expires time.Time

	// Try is how long one attempt to mint or to install may take, and Pause
	// the longest wait between two attempts: with them there are at least two
	// whole attempts before Reported.
	Try, Pause time.Duration
}

// LeaseOf plans the life of credentials that were asked for at issued, expire
// at expires and are installed at now. They are reported to expire earlier
// than they do, by a sixth of their life within 30 s and 2 min, and renewed
// ahead of that, by a third of their life within 1 and 10 min. Of what is left
// of their life the one takes at most a quarter and the other at most a half,
// so that short ones too are used before they are replaced.
//
// ok is false where nothing is left of them: then the Lease says that they have expired.
func LeaseOf(issued, expires, now time.Time) (l Lease, ok bool) {
	left := expires.Sub(now)
	if left < leastLife {
		return Lease{Renew: now, Degraded: now, Reported: now, Expires: expires}, false
	}
	life := max(expires.Sub(issued), left) // a clock that was set back makes them no younger
	margin := min(clamp(life/6, minMargin, maxMargin), left/4)
	lead := min(clamp(life/3, minLead, maxLead), left/2)
	reported := expires.Add(-margin)
	return Lease{
		Renew:    reported.Add(-lead),
		Degraded: reported.Add(-lead / 4),
		Reported: reported,
		Expires:  expires,
		Try:      min(maxTry, lead/4),
		Pause:    min(maxPause, lead/4),
	}, true
}

// Backoff is how long to wait after so many attempts in a row have failed.
func (l Lease) Backoff(failed int) time.Duration {
	pause := time.Second
	for range min(failed-1, 8) {
		pause *= 2
	}
	return min(pause, l.Pause)
}

func clamp(d, least, most time.Duration) time.Duration { return min(max(d, least), most) }
