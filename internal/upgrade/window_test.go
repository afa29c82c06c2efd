package upgrade

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may have no time zones
)

// parsed parses a window without a local time zone.
func parsed(t *testing.T, text string) Window {
	t.Helper()
	w, err := ParseWindow(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Times in the tests are RFC 3339; in Berlin, summer time begins on 2026-03-29 at 02:00,
// which becomes 03:00, and ends on 2026-10-25 at 03:00, which becomes 02:00.
func TestWindowAt(t *testing.T) {
	for _, tt := range []struct {
		window, now string
		opens       string // empty if the window is open
	}{
		{"22:00-04:00 UTC", "2026-01-05T21:59:59Z", "2026-01-05T22:00:00Z"},
		{"22:00-04:00 UTC", "2026-01-05T22:00:00Z", ""},
		{"22:00-04:00 UTC", "2026-01-06T00:00:00Z", ""},
		{"22:00-04:00 UTC", "2026-01-06T03:59:59Z", ""},
		{"22:00-04:00 UTC", "2026-01-06T04:00:00Z", "2026-01-06T22:00:00Z"},
		{"08:00-12:30 UTC", "2026-01-05T12:29:00Z", ""},
		{"08:00-12:30 UTC", "2026-01-05T12:30:00Z", "2026-01-06T08:00:00Z"},
		{"22:00-00:00 UTC", "2026-01-05T23:59:00Z", ""},
		{"22:00-24:00 UTC", "2026-01-05T23:59:00Z", ""},
		{"22:00-24:00 UTC", "2026-01-06T00:00:00Z", "2026-01-06T22:00:00Z"},
		{"00:00-24:00 UTC", "2026-01-06T00:00:00Z", ""},
		// The day is that on which the window opens: Sunday's lasts into Monday.
		{"Sat,Sun 22:00-04:00 UTC", "2026-01-05T03:00:00Z", ""},
		{"Sat,Sun 22:00-04:00 UTC", "2026-01-05T04:00:00Z", "2026-01-10T22:00:00Z"},
		{"Sat,Sun 22:00-04:00 UTC", "2026-01-10T03:00:00Z", "2026-01-10T22:00:00Z"},
		{"Sat,Sun 00:00-24:00 UTC", "2026-01-11T00:00:00Z", ""},
		{"Fri-Mon 08:00-09:00 UTC", "2026-01-05T10:00:00Z", "2026-01-09T08:00:00Z"},
		// The time zone decides on the day, too.
		{"Sat 00:30-01:00 Europe/Berlin", "2026-01-09T23:45:00Z", ""},
		{"Sat 22:00-23:00 America/New_York", "2026-01-11T03:30:00Z", ""},
		// The clock skips from 02:00 to 03:00.
		{"22:00-04:00 Europe/Berlin", "2026-03-29T01:59:00Z", ""},
		{"22:00-04:00 Europe/Berlin", "2026-03-29T02:00:00Z", "2026-03-29T22:00:00+02:00"},
		{"02:30-04:00 Europe/Berlin", "2026-03-29T00:59:00Z", "2026-03-29T03:00:00+02:00"},
		{"02:30-04:00 Europe/Berlin", "2026-03-29T01:00:00Z", ""},
		{"22:00-02:30 Europe/Berlin", "2026-03-29T00:59:59Z", ""},
		{"22:00-02:30 Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T22:00:00+02:00"},
		{"Sun 02:10-02:50 Europe/Berlin", "2026-03-28T12:00:00Z", "2026-04-05T02:10:00+02:00"},
		{"Sun 02:10-02:50 Europe/Berlin", "2026-03-22T02:00:00Z", "2026-04-05T02:10:00+02:00"},
		// The clock shows 02:00 to 03:00 twice: the first time counts.
		{"22:00-04:00 Europe/Berlin", "2026-10-25T02:59:00Z", ""},
		{"22:00-04:00 Europe/Berlin", "2026-10-25T03:00:00Z", "2026-10-25T22:00:00+01:00"},
		{"02:30-03:30 Europe/Berlin", "2026-10-25T00:29:00Z", "2026-10-25T02:30:00+02:00"},
		{"02:30-03:30 Europe/Berlin", "2026-10-25T00:30:00Z", ""},
		{"02:30-03:30 Europe/Berlin", "2026-10-25T02:29:00Z", ""},
		{"02:30-03:30 Europe/Berlin", "2026-10-25T02:30:00Z", "2026-10-26T02:30:00+01:00"},
		{"02:10-02:50 Europe/Berlin", "2026-10-25T00:49:00Z", ""},
		{"02:10-02:50 Europe/Berlin", "2026-10-25T01:15:00Z", "2026-10-26T02:10:00+01:00"},
		// Lord Howe's clocks move by 30 minutes, at 02:00.
		{"02:15-05:00 Australia/Lord_Howe", "2026-10-03T15:29:00Z", "2026-10-04T02:30:00+11:00"},
		{"02:15-05:00 Australia/Lord_Howe", "2026-10-03T15:30:00Z", ""},
		// Samoa had no 30 December 2011.
		{"Fri 10:00-11:00 Pacific/Apia", "2011-12-30T09:00:00Z", "2012-01-06T10:00:00+14:00"},
	} {
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		open, opens := parsed(t, tt.window).At(now)
		got := ""
		if !open {
			got = opens.Format(time.RFC3339)
		}
		if got != tt.opens {
			t.Errorf("%s at %s opens at %q, want %q", tt.window, tt.now, got, tt.opens)
		}
	}
}

// At agrees with itself: a window opens when it says, and not before.
func TestWindowOpensWhenItSays(t *testing.T) {
	for _, text := range []string{"22:00-04:00 Europe/Berlin", "Sun 02:10-02:50 Europe/Berlin", "Mon-Fri 01:30-02:30 America/St_Johns", "Sat,Sun 00:00-24:00 Africa/Casablanca"} {
		w := parsed(t, text)
		for now := time.Date(2026, 1, 1, 0, 7, 0, 0, time.UTC); now.Year() == 2026; now = now.Add(53 * time.Minute) {
			open, opens := w.At(now)
			if open {
				continue
			}
			if then, _ := w.At(opens); !then || !opens.After(now) {
				t.Fatalf("%s is closed at %s, and is to open at %s, when it is open: %t", text, now, opens, then)
			}
			if before, _ := w.At(opens.Add(-time.Second)); before {
				t.Fatalf("%s opens before %s", text, opens)
			}
		}
	}
}

// Without a window, a move may begin at any time.
func TestNoWindow(t *testing.T) {
	if open, _ := (Window{}).At(time.Unix(0, 0)); !open || (Window{}).String() != "" || !(Window{}).IsZero() {
		t.Error("the zero Window is not open")
	}
}

func TestWindowString(t *testing.T) {
	for text, want := range map[string]string{
		"22:00-04:00":                           "22:00-04:00 America/New_York",
		"sunday,SAT 1:00-24:00 Europe/Berlin":   "Sat,Sun 01:00-24:00 Europe/Berlin",
		"  Fri-Mon   08:00-09:00  UTC ":         "Mon,Fri,Sat,Sun 08:00-09:00 UTC",
		"Mon-Sun 22:00-04:00 Etc/GMT+5":         "22:00-04:00 Etc/GMT+5",
		"Mon,Wednesday,Fri-Sat 23:15-23:45 UTC": "Mon,Wed,Fri,Sat 23:15-23:45 UTC",
	} {
		w, err := ParseWindow(text, "America/New_York")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if w.String() != want {
			t.Errorf("%q is %q, want %q", text, w, want)
		}
		if again := parsed(t, w.String()); again.String() != want {
			t.Errorf("%q, parsed again, is %q", want, again)
		}
	}
}

// Errors name the field, its value and the remedy.
func TestParseWindowErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                              `window "" has no times: add them as HH:MM-HH:MM`,
		"Sat,Sun":                       `window "Sat,Sun" has no times`,
		"Sat Sun 22:00-04:00":           "join several days by commas",
		"22:00-04:00 Europe/Berlin now": "is not of the form [DAYS] HH:MM-HH:MM [TIME ZONE]",
		"22:00 - 04:00":                 "is not of the form",
		"22:00":                         `the times are "22:00": use HH:MM-HH:MM`,
		"25:00-04:00 UTC":               `the time is "25:00": use HH:MM from 00:00 to 24:00`,
		"22:60-04:00 UTC":               `the time is "22:60"`,
		"22:5-04:00 UTC":                `the time is "22:5"`,
		"22:00-4 UTC":                   `the time is "4"`,
		"22:00--4:00 UTC":               `the time is "-4:00"`,
		"22:00-24:01 UTC":               `the time is "24:01"`,
		"24:00-04:00 UTC":               "begin at 00:00 of the next day",
		"04:00-04:00 UTC":               "for whole days use 00:00-24:00",
		"Sa 22:00-04:00 UTC":            `the day is "Sa": use Mon, Tue`,
		"Sat, 22:00-04:00 UTC":          `the day is ""`,
		"Mon- 22:00-04:00 UTC":          `the day is ""`,
		"22:00-04:00 CET2":              `the time zone is "CET2": use an IANA name such as Europe/Berlin or UTC`,
		"22:00-04:00 +02:00":            `the time zone is "+02:00"`,
		"22:00-04:00 ../etc/passwd":     `the time zone is "../etc/passwd"`,
		"22:00-04:00 Local":             `the time zone is "Local": name it`,
		"22:00-04:00":                   "the time zone is missing, and this machine's has no name: add one",
	} {
		_, err := ParseWindow(text, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
