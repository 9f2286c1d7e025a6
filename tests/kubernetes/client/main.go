// client KUBECONFIG CONTENT-TYPE < objects: what a program with client-go does with objects of every kind.
//
// Standard input has one object a line, as JSON: {"resource": "pods", "namespaced": true, "object": {...}}. Each is
// created, read, listed, watched and deleted with client-go's own types. An empty CONTENT-TYPE is client-go's default.
// Prints one line an object; ends with 1 at the first thing that is not as it should be.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const limit = time.Minute

type line struct {
	Resource   string          `json:"resource"`
	Namespaced bool            `json:"namespaced"`
	Object     json.RawMessage `json:"object"`
}

func check(err error, what string) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func client(config *rest.Config, gv schema.GroupVersion) *rest.RESTClient {
	own := rest.CopyConfig(config)
	own.GroupVersion = &gv
	own.APIPath = "/apis"
	if gv.Group == "" {
		own.APIPath = "/api"
	}
	own.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(own)
	check(err, gv.String())
	return c
}

func fresh(gvk schema.GroupVersionKind) runtime.Object {
	object, err := scheme.Scheme.New(gvk)
	check(err, gvk.String())
	return object
}

func try(config *rest.Config, l line) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	wanted, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(l.Object, nil, nil)
	check(err, l.Resource)
	accessor, err := meta.Accessor(wanted)
	check(err, l.Resource)
	c := client(config, gvk.GroupVersion())
	name, ns := accessor.GetName(), "default"
	what := fmt.Sprintf("%s %s %s", gvk.GroupVersion(), gvk.Kind, name)

	created, read := fresh(*gvk), fresh(*gvk)
	check(c.Post().NamespaceIfScoped(ns, l.Namespaced).Resource(l.Resource).Body(wanted).Do(ctx).Into(created), what+": create")
	check(c.Get().NamespaceIfScoped(ns, l.Namespaced).Resource(l.Resource).Name(name).Do(ctx).Into(read), what+": get")
	one, _ := meta.Accessor(created)
	two, _ := meta.Accessor(read)
	if one.GetUID() == "" || one.GetUID() != two.GetUID() {
		check(fmt.Errorf("uid %q, then %q", one.GetUID(), two.GetUID()), what)
	}
	if one.GetResourceVersion() == two.GetResourceVersion() && !equality.Semantic.DeepEqual(created, read) {
		check(fmt.Errorf("read is not what was created:\n%+v\n%+v", created, read), what)
	}
	list := fresh(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	selector := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	check(c.Get().NamespaceIfScoped(ns, l.Namespaced).Resource(l.Resource).VersionedParams(&selector, scheme.ParameterCodec).
		Do(ctx).Into(list), what+": list")
	items, err := meta.ExtractList(list)
	check(err, what)
	if len(items) != 1 {
		check(fmt.Errorf("%d of them are listed", len(items)), what)
	}
	events, err := c.Get().NamespaceIfScoped(ns, l.Namespaced).Resource(l.Resource).
		VersionedParams(&metav1.ListOptions{FieldSelector: selector.FieldSelector, Watch: true}, scheme.ParameterCodec).Watch(ctx)
	check(err, what+": watch")
	event, open := <-events.ResultChan()
	if !open || event.Type != watch.Added {
		check(fmt.Errorf("the first event is %v", event), what)
	}
	events.Stop()
	zero := int64(0)
	check(c.Delete().NamespaceIfScoped(ns, l.Namespaced).Resource(l.Resource).Name(name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &zero}).Do(ctx).Error(), what+": delete")
	fmt.Println(what)
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err, "kubeconfig")
	if os.Args[2] != "" {
		config.ContentType = os.Args[2]
		config.AcceptContentTypes = os.Args[2] + ",application/json"
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l line
		check(json.Unmarshal(in.Bytes(), &l), "standard input")
		try(config, l)
	}
	check(in.Err(), "standard input")
}
