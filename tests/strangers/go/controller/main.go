// controller-runtime: two managers with leader election; the one that leads makes a Secret for each ConfigMap with a label.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const space = "controller-runtime"

type keeper struct {
	client.Client
	name string
}

func (k *keeper) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := k.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["keep"] == "" {
		return ctrl.Result{}, nil
	}
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, k.Client, &secret, func() error {
		secret.StringData = map[string]string{"by": k.name}
		return controllerutil.SetControllerReference(&source, &secret, k.Scheme())
	})
	return ctrl.Result{}, err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func until(ctx context.Context, what string, condition func() (bool, error)) {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return condition() })
	if err != nil {
		panic(fmt.Sprintf("waited for %s: %v", what, err))
	}
}

func manager(ctx context.Context, name string) (ctrl.Manager, chan error) {
	lease, renew, retry, yes := 6*time.Second, 4*time.Second, time.Second, true
	m, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection: true, LeaderElectionID: "strangers", LeaderElectionNamespace: space, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &yes},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{space: {}}}})
	must(err)
	must(ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&keeper{m.GetClient(), name}))
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	return m, done
}

func kept(ctx context.Context, c client.Client, name string) string {
	must(c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: space,
		Labels: map[string]string{"keep": "yes"}}}))
	var secret corev1.Secret
	until(ctx, "the secret "+name, func() (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, &secret)
		return err == nil, client.IgnoreNotFound(err)
	})
	return string(secret.Data["by"])
}

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := client.New(ctrl.GetConfigOrDie(), client.Options{})
	must(err)
	must(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}))
	first, stop := context.WithCancel(ctx)
	one, ended := manager(first, "one")
	<-one.Elected()
	second, stopSecond := context.WithCancel(ctx)
	two, endedSecond := manager(second, "two")
	if by := kept(ctx, c, "a"); by != "one" {
		panic("made by " + by + ", which does not lead")
	}
	stop()
	must(<-ended)
	<-two.Elected()
	if by := kept(ctx, c, "b"); by != "two" {
		panic("made by " + by + ", which does not lead")
	}
	must(c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: space}}))
	until(ctx, "the owned secret to go", func() (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: "b"}, &corev1.Secret{})
		return apierrors.IsNotFound(err), nil
	})
	stopSecond()
	must(<-endedSecond)
	must(c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}))
}
