// Package kube has what every client of the API server needs and client-go lacks:
//
//	lists.go      reads lists page by page
//	workloads.go  lists the pod templates of a cluster's workloads
//	delete.go     deletes exactly the object that was read
package kube
