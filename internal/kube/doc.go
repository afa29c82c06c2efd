// Package kube has what nadra's clients of the API server need and client-go lacks:
//
//	lists.go      reads lists page by page, also kinds that the user may not read
//	await.go      polls until nothing is missing
//	delete.go     deletes exactly the object that was read
//	ratelimit.go  recognizes requests that were not sent
//	annotate.go   annotates a pod through its status subresource
//	workloads.go  lists the pod templates of a cluster's workloads
package kube
