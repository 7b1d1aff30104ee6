package billing

import "context"

var _ Asker = (*Till)(nil)

// Ask decides as [Till.Admit] would about the account as it stands, which it only reads.
// Where the ledger can't be asked, TillConfig.OnFault decides as for OpAdmit.
func (g *Till) Ask(ctx context.Context, in Intent) error {
	if in.Meter != "" {
		if _, err := g.tariffs.Rate(in.Meter, in.Class); err != nil {
			return err
		}
	}
	b, err := g.ledger.Balance(ctx, in.Payer)
	switch {
	case isFault(err) && g.onFault(OpAdmit) == FailOpen:
		return nil
	case err != nil:
		return err
	}
	if d := Admit(b.Standing, g.terms(in.Plan)); !d.Allow {
		return &RefusedError{Payer: in.Payer, Decision: d}
	}
	return nil
}
