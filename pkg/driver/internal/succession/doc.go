// Package succession lets one driver take the place of another on a node, so that one at a time
// uses the state directory.
package succession
