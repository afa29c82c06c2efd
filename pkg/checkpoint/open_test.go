package checkpoint

// Open returns a Store with all records below dir, as New and Load do.
func Open(dir, bootID string) (*Store, []Damaged, error) {
	s := New(dir, bootID)
	damaged, err := s.Load()
	return s, damaged, err
}
