package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Read reads all records and debts below dir and changes nothing, also while a
// driver is at work there. Of a claim that a power cut may take back, what it was
// before is among the records, too. A directory that is not there has none. The
// error is about files that could not be read, beside those that could.
func Read(dir string) ([]Record, []Debt, error) {
	s := &Store{dir: dir}
	var records []Record
	err := readAll(s.claimsDir(), func(name string, data []byte) error {
		of, err := decodeClaimFile(data, strings.TrimPrefix(name, kept))
		records = append(records, of...)
		return err
	})
	var debts []Debt
	err2 := readAll(s.owedDir(), func(_ string, data []byte) error {
		debt, err := decodeDebt(data)
		if err == nil {
			debts = append(debts, debt)
		}
		return err
	})
	return inAttachOrder(records), debts, errors.Join(err, err2)
}

// readAll has every file of a directory decoded, by its name without ".json". A
// file that goes meanwhile is passed over.
func readAll(dir string, decode func(name string, data []byte) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the state directory: %w", err)
	}
	var errs []error
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		if strings.HasPrefix(name, ".tmp-") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = decode(name, data)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("reading %s: %w", filepath.Join(dir, e.Name()), err))
		}
	}
	return errors.Join(errs...)
}
