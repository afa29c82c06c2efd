// Package surface holds what a release promises: every format on disk, API type, JSON report, label, annotation, taint, flag,
// metric, code and exit code, as one line each. The lines of the last release are in released.txt, and CHANGELOG.md lists
// each line that has changed since then. surface_test.go compares, pages_test.go reads the names that other tests compare
// with the code, and shapes_test.go reads the fields of formats in the code.
package surface
