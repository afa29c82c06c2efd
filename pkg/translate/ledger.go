package translate

// Outcome says what became of a field of the input.
type Outcome string

// The outcomes.
const (
	Converted Outcome = "converted" // a claim requests it
	Kept      Outcome = "kept"      // it stays as it was; Code says why unless it is obvious
	Reported  Outcome = "reported"  // it has no effect, or was converted in part; Code says which
)

// Account is what became of one field: a key of an element of the networks annotation, or an
// entry of limits or requests from which a network draws.
type Account struct {
	Object ObjectRef `json:"object"`
	// Position is where the object begins. A file may have several objects of one name.
	Position Position `json:"position"`
	Field    string   `json:"field"`
	Outcome  Outcome  `json:"outcome"`
	Code     Code     `json:"code,omitempty"`
}

// ledger records the outcome of every field of an object. A field is opened when a rule finds it
// and gets its outcome when a rule decides about it, or at the end.
type ledger struct {
	object   object
	fields   []string
	accounts map[string][]Account
}

func newLedger(object object) *ledger {
	return &ledger{object: object, accounts: map[string][]Account{}}
}

// open adds a field without an outcome.
func (l *ledger) open(field string) { l.fields = append(l.fields, field) }

// record adds an outcome of a field.
func (l *ledger) record(field string, outcome Outcome, code Code) {
	l.accounts[field] = append(l.accounts[field], Account{
		Object: l.object.ref, Position: l.object.doc.at(l.object.node), Field: field, Outcome: outcome, Code: code,
	})
}

// recordRest gives an outcome to all fields that have none.
func (l *ledger) recordRest(outcome Outcome, code Code) {
	for _, field := range l.fields {
		if len(l.accounts[field]) == 0 {
			l.record(field, outcome, code)
		}
	}
}

// finish gives an outcome to all fields that have none and returns all accounts.
func (l *ledger) finish(outcome Outcome, code Code) []Account {
	l.recordRest(outcome, code)
	var out []Account
	for _, field := range l.fields {
		out = append(out, l.accounts[field]...)
	}
	return out
}

// reset removes all outcomes. A blocker keeps every field as it is.
func (l *ledger) reset() { l.accounts = map[string][]Account{} }
