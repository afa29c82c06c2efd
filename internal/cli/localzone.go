package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// localZone returns the IANA name of this machine's time zone, or "" if it has none. A
// window is kept by its name, because its zone must be the same on every machine.
func localZone() string {
	tz, set := os.LookupEnv("TZ")
	name := zoneName(tz, set, "/etc")
	zone, err := time.LoadLocation(name)
	if name == "" || err != nil {
		return ""
	}
	now := time.Now()
	if _, offset := now.In(zone).Zone(); offset != offsetOf(now.Local()) {
		return "" // the name was not that of the clock
	}
	return name
}

// offsetOf returns the offset of a time from UTC, in seconds.
func offsetOf(t time.Time) int {
	_, offset := t.Zone()
	return offset
}

// zoneName returns the name of a time zone by the variable TZ, or else by files in etc,
// as the C library and Go choose it.
func zoneName(tz string, set bool, etc string) string {
	if set {
		if tz = strings.TrimPrefix(tz, ":"); tz == "" {
			return "UTC"
		}
		return inZoneInfo(tz)
	}
	target, err := os.Readlink(filepath.Join(etc, "localtime"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "UTC"
	case err == nil:
		return inZoneInfo(target)
	}
	text, err := os.ReadFile(filepath.Join(etc, "timezone")) // Debian's, for a file that is a copy
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// inZoneInfo returns the name of a zone by its file in a directory zoneinfo. It returns a
// name unchanged, and "" for another file.
func inZoneInfo(path string) string {
	if _, name, found := strings.Cut(path, "zoneinfo/"); found {
		return strings.TrimPrefix(name, "posix/")
	}
	if filepath.IsAbs(path) || strings.Contains(path, "..") {
		return ""
	}
	return path
}
