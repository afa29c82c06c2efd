package translate

// Outcome says what became of a field of the input.
type Outcome string

// The outcomes.
const (
	Converted Outcome = "converted" // a claim says it now
	Kept      Outcome = "kept"      // it stays as it was; Code says why, if it is not plain
	Reported  Outcome = "reported"  // it means nothing, or only part of it could be converted; Code says what
)

// Account is what became of one field: a key of an element of the networks
// annotation, or an entry of limits or requests that a network draws from.
type Account struct {
	Object ObjectRef `json:"object"`
	// Position is where the object begins: files may have several of one name.
	Position Position `json:"position"`
	Field    string   `json:"field"`
	Outcome  Outcome  `json:"outcome"`
	Code     Code     `json:"code,omitempty"`
}

// ledger has every field pass exactly once: open when it is seen, settled when
// it is decided. What nobody settles, balance does.
type ledger struct {
	object   object
	fields   []string
	accounts map[string][]Account
}

func newLedger(object object) *ledger {
	return &ledger{object: object, accounts: map[string][]Account{}}
}

func (l *ledger) open(field string) { l.fields = append(l.fields, field) }

func (l *ledger) settle(field string, outcome Outcome, code Code) {
	l.accounts[field] = append(l.accounts[field], Account{
		Object: l.object.ref, Position: l.object.doc.at(l.object.node), Field: field, Outcome: outcome, Code: code,
	})
}

// settleRest settles all that is open now.
func (l *ledger) settleRest(outcome Outcome, code Code) {
	for _, field := range l.fields {
		if len(l.accounts[field]) == 0 {
			l.settle(field, outcome, code)
		}
	}
}

// balance settles what is still open: all of it has the one outcome that is
// left, converted for a workload that was, kept for one that stays.
func (l *ledger) balance(outcome Outcome, code Code) []Account {
	l.settleRest(outcome, code)
	var out []Account
	for _, field := range l.fields {
		out = append(out, l.accounts[field]...)
	}
	return out
}

// void forgets what was settled: a blocker keeps everything as it is.
func (l *ledger) void() { l.accounts = map[string][]Account{} }
