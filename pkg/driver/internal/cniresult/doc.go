// Package cniresult reads what CNI plugins return:
//
//	results.go  addresses in the pod
//	errors.go   errors
package cniresult
