// Package succession lets one driver take the place of another on a node, so that one at a time
// uses the state directory:
//
//	lock.go    the lock of the directory
//	record.go  which driver has the directory, and which drivers have handed it over
//	ask.go     how a successor asks the driver that has it, over a socket in the directory
//	answer.go  how that driver answers
package succession
