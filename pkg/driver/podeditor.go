package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

// podEditor makes the networks of one running pod what its annotation asks for. The caller holds
// the pod's lock while it changes them.
type podEditor struct {
	*pods
	failures editFailures
}

// due reports whether the annotation of a sandbox's pod may ask for a change.
func (e *podEditor) due(s liveSandbox) bool {
	pod := e.watch.Find(s.Pod)
	return pod != nil && pod.DeletionTimestamp == nil && !s.static && e.owner.owned() && podedit.Due(e.podOf(s, pod))
}

// podOf describes a pod for the decision what an edit changes.
func (e *podEditor) podOf(s liveSandbox, pod *metav1.PartialObjectMetadata) podedit.Pod {
	records := e.recordsOf(s.Sandbox)
	shown, _ := networkstatus.Shown(pod.Annotations[nadv1.NetworkStatusAnnot]) // nadra replaces a text that cannot be read
	return podedit.Pod{
		Namespace: s.Pod.Namespace, Baseline: baselineOf(records, s.Sandbox), Annotation: e.cfg.networksText(pod.Annotations),
		Described: s.Described, Records: records, Shown: shown, OwnStatus: e.watch.hasOwnStatus(s.Pod),
	}
}

// recordsOf returns the records of a pod without those that exist for another sandbox.
func (e *podEditor) recordsOf(s attachment.Sandbox) []checkpoint.Record {
	return checkpoint.Where(e.store.ForPod(s.Pod.UID), func(r checkpoint.Record) bool { return !r.Unclaimed() || checkpoint.InSandbox(s.ID)(r) })
}

// baselineOf returns the annotation of which an edit is a change: the one that was there when the
// pod's claims were first attached, or else when the sandbox was made.
func baselineOf(records []checkpoint.Record, s attachment.Sandbox) string {
	for _, r := range records {
		if r.Baseline != nil {
			return *r.Baseline
		}
	}
	if s.Networks == nil {
		return ""
	}
	return *s.Networks
}

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
	e.failures.keepLatest(s.Pod.UID)
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
	todo := checkpoint.Where(e.recordsOf(s.Sandbox), over)
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
	list := networkstatus.Listed(checkpoint.Where(records, e.attacher.AttachedIn(s.Sandbox)))
	_, writing := e.networkStatus.Pending(s.Pod)
	late := !writing && e.podOf(s, pod).Foreign() == "" && !e.networkStatus.Lists(s.Sandbox, pod.Annotations[nadv1.NetworkStatusAnnot], list)
	if changed || late {
		e.networkStatus.Replace(s.Sandbox, list)
	}
	if changed {
		e.updateMetadata(ctx, s.Pod)
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

// reportAdded reports the result of adding a network, unless the sandbox or the driver ends, and
// returns err.
func (e *podEditor) reportAdded(ctx context.Context, s liveSandbox, key checkpoint.Key, network attachment.NetworkRef, iface string, err error) error {
	if err != nil && isCancelled(context.Cause(ctx)) {
		return err
	}
	if err != nil {
		e.refuse(s, podedit.Refusal{Network: network, Interface: iface, Err: err})
		return err
	}
	records := e.recordsOf(s.Sandbox)
	if i := slices.IndexFunc(records, func(r checkpoint.Record) bool { return r.Key() == key }); i >= 0 {
		e.report.added(records[i])
	}
	return nil
}

// refuse reports what a pod does not get, or keeps, unless the latest event says the same.
func (e *podEditor) refuse(s liveSandbox, f podedit.Refusal) {
	if e.failures.isNew(s.Pod.UID, f) {
		e.report.editFailed(s.Pod, f.Removing, f.Err)
	}
}

// refuseAll reports what a plan refuses.
func (e *podEditor) refuseAll(s liveSandbox, refused []podedit.Refusal) {
	for _, f := range refused {
		e.refuse(s, f)
	}
}

// editFailures has the failures of the latest change of each pod, so that each has one event. It keeps no others:
// a tenant may edit an annotation again and again, each time with other networks.
type editFailures struct {
	mu    sync.Mutex
	byPod map[string]map[string]*editFailure
}

// editFailure is the text of a failure. latest is true if the change that runs has met it.
type editFailure struct {
	text   string
	latest bool
}

// isNew records a failure, and reports whether it differs from the latest one of its network.
func (x *editFailures) isNew(podUID string, f podedit.Refusal) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	key, text := fmt.Sprintf("%t %s %s", f.Removing, f.Network, f.Interface), f.Err.Error()
	if x.byPod == nil {
		x.byPod = map[string]map[string]*editFailure{}
	}
	if x.byPod[podUID] == nil {
		x.byPod[podUID] = map[string]*editFailure{}
	}
	known := x.byPod[podUID][key]
	x.byPod[podUID][key] = &editFailure{text, true}
	return known == nil || known.text != text
}

// keepLatest forgets the failures of a pod that the change that ends has not met.
func (x *editFailures) keepLatest(podUID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.byPod[podUID], func(_ string, f *editFailure) bool {
		old := !f.latest
		f.latest = false
		return old
	})
}

// forget forgets the failures of a pod whose sandbox is gone.
func (x *editFailures) forget(podUID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byPod, podUID)
}

// hostNetworkEdited returns why an edit changes nothing for a pod without a network namespace.
func hostNetworkEdited(s attachment.Sandbox) error {
	return reason.Errorf(reason.HostNetwork, "the networks annotation of pod %s was edited, but the pod uses the host's network, which gets no attachments: "+
		"remove the annotation", s.Pod)
}

// interfaceInUse returns why a network is not added yet.
func interfaceInUse(network attachment.NetworkRef, iface string) error {
	return reason.Errorf(reason.PendingDEL, "adding network %s as %s: the pod still has this interface of a removed network, whose DEL has failed; nadra tries again", network, iface)
}

// editWithoutClaim returns why a namespace's policy keeps a network from being added.
func editWithoutClaim(a podedit.Addition, policy UnclaimedPolicy) error {
	return reason.Errorf(reason.NoClaim, "adding network %s as %s: a network that is added to a running pod has no claim, and the policy for such networks is %q (%s): "+
		"delete the pod, so that the next one gets a claim for it; or set the policy to %q", a.Selection.Network, a.Interface, policy, unclaimedSetting, AttachUnclaimed)
}

// poolEdited returns why a network of a resource pool is not added to a running pod.
func poolEdited(a podedit.Addition, pool string) error {
	return reason.Errorf(reason.EditRefused, "adding network %s as %s: it draws from resource pool %s, whose devices pods get by claims before their containers start: "+
		"delete the pod, so that the next one gets a claim for it", a.Selection.Network, cmp.Or(a.Interface, "an interface"), pool)
}
