package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is a maintenance window that recurs daily, or on some days of the week. Its times
// are those of the wall clock in its time zone. The zero Window is always open.
type Window struct {
	// days are the days on which the window opens.
	days [7]bool
	// start and end are minutes after midnight. If end is not after start, the window ends
	// on the next day.
	start, end int
	zone       *time.Location
}

// timesForm shows the form of a window's times.
const timesForm = "HH:MM-HH:MM, for example 22:00-04:00"

// ParseWindow parses a window of the form "[DAYS] HH:MM-HH:MM [TIME ZONE]", such as
// "Sat,Sun 22:00-04:00 Europe/Berlin". Without days the window opens daily. Without a time
// zone it is in localZone, the name of the machine's time zone, which may be unknown.
func ParseWindow(text, localZone string) (Window, error) {
	fields := strings.Fields(text)
	at := slices.IndexFunc(fields, func(f string) bool { return strings.Contains(f, ":") })
	switch {
	case at < 0:
		return Window{}, fmt.Errorf("window %q has no times: add them as %s", text, timesForm)
	case at > 1 || len(fields) > at+2:
		return Window{}, fmt.Errorf("window %q is not of the form [DAYS] HH:MM-HH:MM [TIME ZONE]: join several days by commas, for example Sat,Sun", text)
	}
	w := Window{days: [7]bool{true, true, true, true, true, true, true}}
	var err error
	if at == 1 {
		if w.days, err = parseDays(fields[0]); err != nil {
			return Window{}, fmt.Errorf("window %q: %w", text, err)
		}
	}
	if w.start, w.end, err = parseTimes(fields[at]); err != nil {
		return Window{}, fmt.Errorf("window %q: %w", text, err)
	}
	zone := localZone
	if len(fields) == at+2 {
		zone = fields[at+1]
	}
	if w.zone, err = loadZone(zone); err != nil {
		return Window{}, fmt.Errorf("window %q: %w", text, err)
	}
	return w, nil
}

// loadZone returns the time zone with an IANA name. Time zones are constant data:
// kubectl-nadra has them built in, for machines without them.
func loadZone(name string) (*time.Location, error) {
	switch name {
	case "":
		return nil, errors.New("the time zone is missing, and this machine's has no name: add one, for example Europe/Berlin")
	case "Local": // which differs between machines
		return nil, errors.New(`the time zone is "Local": name it, for example Europe/Berlin`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("the time zone is %q: use an IANA name such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}

// parseDays parses days and ranges of days: "Sat,Sun" or "Mon-Fri".
func parseDays(text string) (days [7]bool, err error) {
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := parseDay(first)
		if err != nil {
			return days, err
		}
		to := from
		if isRange {
			if to, err = parseDay(last); err != nil {
				return days, err
			}
		}
		for day := from; ; day = (day + 1) % 7 {
			days[day] = true
			if day == to {
				break
			}
		}
	}
	return days, nil
}

// parseDay parses the English name of a day, or its first three letters.
func parseDay(text string) (time.Weekday, error) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); strings.EqualFold(text, name) || strings.EqualFold(text, name[:3]) {
			return day, nil
		}
	}
	return 0, fmt.Errorf("the day is %q: use Mon, Tue, Wed, Thu, Fri, Sat or Sun", text)
}

// parseTimes parses the times at which a window opens and closes, in minutes.
func parseTimes(text string) (start, end int, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		return 0, 0, fmt.Errorf("the times are %q: use %s", text, timesForm)
	}
	if start, err = parseTime(from); err != nil {
		return 0, 0, err
	}
	if end, err = parseTime(to); err != nil {
		return 0, 0, err
	}
	switch start {
	case minutesOfDay:
		return 0, 0, fmt.Errorf("the times are %q: begin at 00:00 of the next day instead of 24:00", text)
	case end:
		return 0, 0, fmt.Errorf("the times are %q, which begin and end at once: for whole days use 00:00-24:00", text)
	}
	return start, end, nil
}

const minutesOfDay = 24 * 60

// OpensLayout is the layout of the time at which a window opens, for people.
const OpensLayout = "Mon 2006-01-02 15:04 MST"

// parseTime parses a time of day, HH:MM, up to 24:00.
func parseTime(text string) (minutes int, err error) {
	hours, rest, _ := strings.Cut(text, ":")
	h, err1 := strconv.ParseUint(hours, 10, 8)
	m, err2 := strconv.ParseUint(rest, 10, 8)
	minutes = int(h)*60 + int(m)
	if err1 != nil || err2 != nil || len(hours) > 2 || len(rest) != 2 || m > 59 || minutes > minutesOfDay {
		return 0, fmt.Errorf("the time is %q: use HH:MM from 00:00 to 24:00", text)
	}
	return minutes, nil
}

// IsZero reports whether there is no window, so that it is always open.
func (w Window) IsZero() bool { return w.zone == nil }

// String returns the window in the form that ParseWindow parses, with its time zone; empty
// without a window.
func (w Window) String() string {
	if w.IsZero() {
		return ""
	}
	days := ""
	if w.days != [7]bool{true, true, true, true, true, true, true} {
		var names []string
		for i := range 7 { // a week begins on Monday
			if day := time.Weekday((i + 1) % 7); w.days[day] {
				names = append(names, day.String()[:3])
			}
		}
		days = strings.Join(names, ",") + " "
	}
	return fmt.Sprintf("%s%02d:%02d-%02d:%02d %s", days, w.start/60, w.start%60, w.end/60, w.end%60, w.zone)
}

// searchDays limits the search for the next opening. More than a week is needed only if
// the clock skips a weekly window when daylight saving time begins.
const searchDays = 15

// At reports whether the window is open at a time. If it is closed, opens is when it opens
// next, in the window's time zone.
func (w Window) At(now time.Time) (open bool, opens time.Time) {
	if w.IsZero() {
		return true, time.Time{}
	}
	local := now.In(w.zone)
	for i := -1; i <= searchDays; i++ { // yesterday's window may still be open
		year, month, day := local.Year(), local.Month(), local.Day()+i
		if !w.days[time.Date(year, month, day, 12, 0, 0, 0, time.UTC).Weekday()] {
			continue
		}
		start, end := wallTime(year, month, day, w.start, w.zone), wallTime(year, month, day, w.end, w.zone)
		if w.end <= w.start {
			end = wallTime(year, month, day+1, w.end, w.zone)
		}
		switch {
		case !end.After(start) || !end.After(now): // skipped by the clock, or over
		case start.After(now):
			return false, start
		default:
			return true, time.Time{}
		}
	}
	return false, local.AddDate(0, 0, searchDays) // for a zone that skips a day; then At is asked again
}

// wallTime returns when the clock in a time zone shows a time of day. A time that the
// clock skips is the moment of the skip; of a time that it shows twice it is the first.
func wallTime(year int, month time.Month, day, minutes int, zone *time.Location) time.Time {
	wanted := time.Date(year, month, day, 0, minutes, 0, 0, time.UTC)
	t := time.Date(year, month, day, 0, minutes, 0, 0, zone)
	begins, ends := t.ZoneBounds()
	switch shown := onClock(t); {
	case shown.After(wanted):
		return begins
	case shown.Before(wanted):
		return ends
	}
	if begins.IsZero() {
		return t
	}
	_, offset := t.Zone()
	_, before := begins.Add(-time.Second).Zone()
	if first := t.Add(time.Duration(offset-before) * time.Second); first.Before(begins) && onClock(first).Equal(wanted) {
		return first
	}
	return t
}

// onClock returns the time that a clock shows, as if it were UTC.
func onClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
