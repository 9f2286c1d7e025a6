// client-go as controllers use it: the typed client as it is and with protobuf alone, shared informers with WatchList.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const space = "client-go"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func until(ctx context.Context, what string, condition func(context.Context) (bool, error)) {
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, condition); err != nil {
		panic(fmt.Sprintf("waited for %s: %v", what, err))
	}
}

func typed(ctx context.Context, client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(space)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}, Data: map[string]string{"a": "1"}},
		metav1.CreateOptions{})
	must(err)
	old := made.DeepCopy()
	made.Data["a"] = "2"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	must(err)
	if _, err = maps.Update(ctx, old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		panic(fmt.Sprintf("an old version was accepted: %v", err))
	}
	_, err = maps.Apply(ctx, corev1apply.ConfigMap("applied", space).WithData(map[string]string{"x": "y"}),
		metav1.ApplyOptions{FieldManager: "stranger"})
	must(err)
	patched, err := maps.Patch(ctx, "applied", types.StrategicMergePatchType, []byte(`{"data":{"z":"1"}}`), metav1.PatchOptions{})
	must(err)
	if patched.Data["x"] != "y" || patched.Data["z"] != "1" {
		panic(fmt.Sprintf("patched: %v", patched.Data))
	}
}

func deployment() *appsv1.Deployment {
	one, grace := int32(1), int64(1)
	names := map[string]string{"app": "d"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &one,
		Selector: &metav1.LabelSelector{MatchLabels: names},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: names}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "main", Image: "any", Command: []string{"sleep", "1000"}}}}}}}
}

func informed(ctx context.Context, client kubernetes.Interface) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(space))
	pods := factory.Core().V1().Pods()
	added := make(chan string, 100)
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object interface{}) { added <- object.(*corev1.Pod).Name }})
	must(err)
	factory.Core().V1().Nodes().Informer()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			panic(fmt.Sprintf("%v was never in step", kind))
		}
	}
	_, err = client.AppsV1().Deployments(space).Create(ctx, deployment(), metav1.CreateOptions{})
	must(err)
	until(ctx, "the deployment's pod", func(context.Context) (bool, error) {
		found, err := pods.Lister().Pods(space).List(labels.SelectorFromSet(labels.Set{"app": "d"}))
		return err == nil && len(found) == 1 && found[0].Status.Phase == corev1.PodRunning, err
	})
	scale, err := client.AppsV1().Deployments(space).GetScale(ctx, "d", metav1.GetOptions{})
	must(err)
	scale.Spec.Replicas = 0
	_, err = client.AppsV1().Deployments(space).UpdateScale(ctx, "d", scale, metav1.UpdateOptions{})
	must(err)
	until(ctx, "the pod to go", func(context.Context) (bool, error) {
		found, err := pods.Lister().List(labels.Everything())
		return len(found) == 0, err
	})
	if len(added) == 0 {
		panic("the informer's handler was never called")
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	client := kubernetes.NewForConfigOrDie(config)
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{})
	must(err)
	typed(ctx, client)
	typed(ctx, kubernetes.NewForConfigOrDie(binary))
	informed(ctx, client)
	partial, err := metadata.NewForConfigOrDie(config).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).
		Namespace(space).List(ctx, metav1.ListOptions{})
	must(err)
	if len(partial.Items) < 2 {
		panic(fmt.Sprintf("metadata of %d objects", len(partial.Items)))
	}
	must(client.CoreV1().Namespaces().Delete(ctx, space, metav1.DeleteOptions{}))
}
