// Package surface holds what a release promises: every format on disk, API type, JSON report, label, annotation, taint, flag,
// subcommand, metric, code and exit code, and each program of an image, as one line each. The lines of the last release are in
// released.txt, and CHANGELOG.md lists each line that has changed since then. surface_test.go compares, pages_test.go reads the
// names that other tests compare with the code, files_test.go the files that other tests compare with what the code writes, and
// shapes_test.go the fields of formats in the code. previous_test.go holds what a release leaves for tests of updates.
package surface
