package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile replaces path by data so that a reader, also one after a crash or
// a power cut, sees either the old or the new content, whole.
func replaceFile(path string, data []byte) error {
	file, err := writeFile(path, data, true)
	if err != nil {
		return err
	}
	return file.Close()
}

// writeFile replaces path by data for whoever reads it now, and returns the open
// file. Without sync a power cut may leave a part of it, or nothing.
func writeFile(path string, data []byte, sync bool) (file *os.File, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return nil, err
	}
	_, err = tmp.Write(data)
	if err == nil && sync {
		err = tmp.Sync()
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, tmp.Close(), removeIfThere(tmp.Name()))
	}
	return tmp, nil
}

// syncDir makes names that were added to or removed from dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeIfThere removes path; a file that is not there is fine.
func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
