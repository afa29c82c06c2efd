package driver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

// change compares a pod's annotation with its records, and makes the difference: first the DELs,
// then the ADDs in the order of the annotation, and at the end network-status, once. The pod is
// locked. A failure stops nothing else; it is an event, and an error so that another try follows.
func (e *podEditor) change(ctx context.Context, s liveSandbox) error {
	pod := e.watch.Find(s.Pod)
	if pod == nil || !e.due(s) {
		return nil
	}
	if s.NetNS == "" {
		if !s.Unspecified { // otherwise the runtime has lost the sandbox, and its containers do not start
			e.refuse(s, podedit.Refusal{Err: hostNetworkEdited(s.Sandbox)})
		}
		return nil
	}
	ns, err := e.attacher.Netns.Inspect(s.NetNS)
	switch {
	case errors.Is(err, podns.ErrGone), errors.Is(err, podns.ErrHost):
		return nil // the runtime reports its end
	case err != nil:
		return err
	}
	s.Cookie = ns.Cookie
	started := time.Now()
	if err := e.markStale(s); err != nil {
		return err
	}
	deleted, oldErr := e.deleteRemoved(ctx, s)
	if err := e.forgetAdded(s, pod); err != nil {
		return err
	}
	plan := podedit.Make(e.podOf(s, pod))
	if err := e.record(plan); err != nil {
		return err
	}
	more, delErr := false, oldErr
	if len(plan.Remove) > 0 {
		more, delErr = e.deleteRemoved(ctx, s)
	}
	added, addErr := e.addAll(ctx, s, plan)
	changed := deleted || more || added
	if changed {
		klog.FromContext(ctx).Info("The networks of a running pod were changed as its annotation asks", "sandbox", s.ID, "duration", time.Since(started))
	}
	e.show(ctx, s, pod, changed || len(plan.Index) > 0)
	e.refuseAll(s, plan.Refused)
	err = errors.Join(delErr, addErr, e.forgetAdded(s, pod))
	if err == nil && len(plan.Refused) == 0 {
		e.failures.forget(s.Pod.UID)
	}
	return err
}

// record records what a plan removes, and the positions of what stays, before anything is done.
func (e *podEditor) record(plan podedit.Plan) error {
	if len(plan.Remove) > 0 {
		if err := checkpoint.NewEdits(e.store).MarkRemoved(checkpoint.Keys(plan.Remove)...); err != nil {
			return err
		}
	}
	if len(plan.Index) > 0 {
		return checkpoint.NewEdits(e.store).Reorder(plan.Index)
	}
	return nil
}

// markStale makes added networks get a DEL and an ADD whose addresses an earlier driver did not
// list in network-status, if somebody may have freed them since. It leaves one alone whose DEL would
// certainly harm another network.
func (e *podEditor) markStale(s liveSandbox) error {
	var stale []checkpoint.Key
	for _, r := range e.recordsOf(s.Sandbox) {
		if r.Live(s.ID) && r.Phase == checkpoint.Attached && networkstatus.Unlisted(r) && r.Attachment.UsesIPAM(attachment.Whereabouts) && e.attacher.Harm(r) == nil {
			stale = append(stale, r.Key())
		}
	}
	if _, writing := e.networkStatus.Pending(s.Pod); len(stale) == 0 || writing {
		return nil
	}
	err := e.store.MarkUnlistedDetaching(stale...)
	if errors.Is(err, checkpoint.ErrStatusStored) {
		return nil
	}
	return err
}

// deleteRemoved runs the DELs of removed networks, and of those whose ADD has not succeeded,
// and reports whether one has succeeded.
func (e *podEditor) deleteRemoved(ctx context.Context, s liveSandbox) (deleted bool, err error) {
	over := func(r checkpoint.Record) bool {
		return r.NeedsDEL() && checkpoint.InSandbox(s.ID)(r) && (r.Removed || r.Live(s.ID) && r.Phase == checkpoint.Attaching)
	}
	todo := slices.DeleteFunc(e.recordsOf(s.Sandbox), func(r checkpoint.Record) bool { return !over(r) })
	if len(todo) == 0 {
		return false, nil
	}
	err = e.attacher.Detach(ctx, s.Pod.UID, over)
	left := e.recordsOf(s.Sandbox)
	for _, r := range todo {
		switch there := slices.ContainsFunc(left, func(l checkpoint.Record) bool { return l.Key() == r.Key() && l.NeedsDEL() }); {
		case there && isCancelled(context.Cause(ctx)): // the end of the sandbox, or the next driver, tries again
		case there && err != nil:
			e.refuse(s, podedit.Refusal{Removing: true, Network: r.Attachment.Network, Interface: r.Attachment.Interface, Err: err})
		case !there && !e.isPending(r):
			deleted = true
			if r.Removed {
				e.report.removed(r)
			}
		case !there:
			deleted = true // the DEL was deferred, and has an event
		}
	}
	e.reportClaims(s, todo, nil)
	return deleted, err
}

// isPending reports whether the DEL of a record is pending.
func (e *podEditor) isPending(r checkpoint.Record) bool {
	return slices.ContainsFunc(e.store.PendingDELs(), func(d checkpoint.PendingDEL) bool { return d.Record.DELKey() == r.DELKey() })
}

// forgetAdded deletes the records of networks that an edit has added: those that could not be
// added, so that the next try reads the network again, and removed ones, once network-status
// does not list them any more.
func (e *podEditor) forgetAdded(s liveSandbox, pod *metav1.PartialObjectMetadata) error {
	shown, _ := networkstatus.Shown(pod.Annotations[nadv1.NetworkStatusAnnot])
	_, writing := e.networkStatus.Pending(s.Pod)
	var gone []checkpoint.Key
	for _, r := range e.recordsOf(s.Sandbox) {
		listed := slices.ContainsFunc(shown, func(n nadv1.NetworkStatus) bool {
			return n.Name == r.Attachment.Network.String() && n.Interface == r.Attachment.Interface
		})
		if r.Key().Added && r.Phase == checkpoint.Prepared && (!r.Removed || !listed && !writing) {
			gone = append(gone, r.Key())
		}
	}
	return checkpoint.NewEdits(e.store).ForgetAdded(gone...)
}

// addAll adds what a plan adds, in order, unless the sandbox itself is not attached yet: the end of
// that comes back. It reports whether it has added a network.
func (e *podEditor) addAll(ctx context.Context, s liveSandbox, plan podedit.Plan) (added bool, err error) {
	records := e.recordsOf(s.Sandbox)
	if slices.ContainsFunc(records, e.attacher.Missing(s.Sandbox)) {
		return false, nil
	}
	type step struct {
		index int
		run   func() error
	}
	var steps []step
	for _, r := range records {
		if r.Live(s.ID) && !r.Removed && !r.Unclaimed() && r.Phase == checkpoint.Prepared || slices.ContainsFunc(plan.Back, func(b checkpoint.Record) bool { return b.Key() == r.Key() }) {
			steps = append(steps, step{r.Index, func() error { return e.addBack(ctx, s, r) }})
		}
	}
	alone := e.leavesAlone(s)
	for _, a := range plan.Add {
		if alone {
			break
		}
		steps = append(steps, step{a.Index, func() error { return e.addOne(ctx, s, a) }})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.index, b.index) })
	var errs []error
	for _, one := range steps {
		if ctx.Err() != nil {
			return added, errors.Join(append(errs, context.Cause(ctx))...)
		}
		err := one.run()
		added = added || err == nil
		errs = append(errs, err)
	}
	return added, errors.Join(errs...)
}

// leavesAlone reports whether the policy leaves networks without a claim to other programs. For a
// pod that has networks of nadra, there is hardly another program, and planAdded refuses them.
func (e *podEditor) leavesAlone(s liveSandbox) bool {
	return e.owner.exempts(s.Pod.String()) ||
		e.policies.of(s.Pod.Namespace) == AllowUnclaimed && len(e.recordsOf(s.Sandbox)) == 0
}

// addBack attaches the network of a claim again.
func (e *podEditor) addBack(ctx context.Context, s liveSandbox, r checkpoint.Record) error {
	err := checkpoint.NewEdits(e.store).MarkWanted(s.ID, r.Key())
	if err == nil {
		err = e.addLive(ctx, s, r)
	}
	e.reportClaims(s, []checkpoint.Record{r}, err)
	return e.reportAdded(ctx, s, r.Key(), r.Attachment.Network, r.Attachment.Interface, err)
}

// addOne attaches a network without a claim. Its record is on disk before its ADD.
func (e *podEditor) addOne(ctx context.Context, s liveSandbox, a podedit.Addition) error {
	var key checkpoint.Key
	prepared, err := e.planAdded(s, a)
	if err == nil {
		var r checkpoint.Record
		if r, err = checkpoint.NewEdits(e.store).AddLive(prepared, s.Sandbox); err == nil {
			key, err = r.Key(), e.addLive(ctx, s, r)
		}
	}
	return e.reportAdded(ctx, s, key, a.Selection.Network, a.Interface, err)
}

// addLive attaches a record unless a removed network still has its interface.
func (e *podEditor) addLive(ctx context.Context, s liveSandbox, r checkpoint.Record) error {
	at := r.Attachment
	if slices.ContainsFunc(e.recordsOf(s.Sandbox), func(o checkpoint.Record) bool {
		return o.NeedsDEL() && o.Key() != r.Key() && o.Attachment.Interface == at.Interface
	}) {
		return interfaceInUse(at.Network, at.Interface)
	}
	return e.attacher.AddLive(ctx, s.Sandbox, r)
}

// planAdded returns what is to be recorded for a network without a claim, if the policy attaches it.
func (e *podEditor) planAdded(s liveSandbox, a podedit.Addition) (attachment.Prepared, error) {
	if policy := e.policies.of(s.Pod.Namespace); policy != AttachUnclaimed {
		return attachment.Prepared{}, editWithoutClaim(a, policy)
	}
	return e.planner.planAdded(s.Pod, a)
}

// show makes network-status list what the pod has in the order of the annotation, if that has
// changed, or if an earlier driver has not come to it.
func (e *podEditor) show(ctx context.Context, s liveSandbox, pod *metav1.PartialObjectMetadata, changed bool) {
	records := e.recordsOf(s.Sandbox)
	if slices.ContainsFunc(records, e.attacher.Missing(s.Sandbox)) {
		return // the end of the attach writes it
	}
	attached := e.attacher.AttachedIn(s.Sandbox)
	list := networkstatus.Listed(slices.DeleteFunc(records, func(r checkpoint.Record) bool { return !attached(r) }))
	_, writing := e.networkStatus.Pending(s.Pod)
	late := !writing && e.podOf(s, pod).Foreign() == "" && !e.networkStatus.Lists(s.Sandbox, pod.Annotations[nadv1.NetworkStatusAnnot], list)
	if changed || late {
		e.networkStatus.Replace(s.Sandbox, list)
	}
	if changed {
		e.metadata.update(ctx, s.Pod)
	}
}

// reportClaims stores the state of the claims that some records have. err is why one of these
// records is not attached.
func (e *podEditor) reportClaims(s liveSandbox, changed []checkpoint.Record, err error) {
	why := errNotBegun
	if err != nil {
		why = err
	}
	describe := func(r checkpoint.Record) claimstatus.Device {
		if !r.DeviceOnly && !e.attacher.AttachedIn(s.Sandbox)(r) {
			return claimstatus.AttachFailed(r, why)
		}
		return claimstatus.Attached(r)
	}
	for claim, devices := range claimstatus.ByClaim(e.recordsOf(s.Sandbox), describe) {
		if slices.ContainsFunc(changed, func(r checkpoint.Record) bool { return r.Claim == claim }) {
			e.claimStatus.Set(claim, devices)
		}
	}
}
