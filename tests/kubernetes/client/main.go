// client KUBECONFIG CONTENT-TYPE < objects: what a program with client-go does with objects of every kind.
//
// Standard input has one object a line, as JSON: {"resource": "pods", "namespaced": true, "stored": true, "status": true,
// "object": {...}}. Each is created, read, listed, watched and deleted with client-go's own types, and its status written where
// the kind has one of its own; what is not stored (reviews) is only created. With "whole", every field that client-go sent must
// be in the answer. An empty CONTENT-TYPE is client-go's default.
// Prints one line an object, and goes on where one is not as it should be; ends with 1 then.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
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
	Stored     bool            `json:"stored"`
	Status     bool            `json:"status"`
	Whole      bool            `json:"whole"`
	Object     json.RawMessage `json:"object"`
}

type failure string

func check(err error, what string) {
	if err != nil {
		panic(failure(fmt.Sprintf("%s: %v", what, err)))
	}
}

// missing says what of `wanted` is not in `got`; lists may have more at their end.
func missing(wanted, got any, path string) string {
	switch w := wanted.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok && len(w) > 0 {
			return path
		}
		for key, value := range w {
			if at := missing(value, g[key], path+"."+key); at != "" {
				return at
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok && len(w) > 0 || len(g) < len(w) {
			return path
		}
		for i, value := range w {
			if at := missing(value, g[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
		return ""
	}
	if wanted != nil && !reflect.DeepEqual(wanted, got) {
		return fmt.Sprintf("%s: %v was sent, %v came back", path, wanted, got)
	}
	return ""
}

// compare holds what was sent against the answer, without the member `but`.
func compare(sent, answer runtime.Object, but string, only bool, what string) {
	one, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sent)
	check(err, what)
	two, err := runtime.DefaultUnstructuredConverter.ToUnstructured(answer)
	check(err, what)
	delete(one, "apiVersion") // client-go takes both off what it reads
	delete(one, "kind")
	if only {
		one = map[string]any{but: one[but]}
	} else {
		delete(one, but)
	}
	if at := missing(one, two, ""); at != "" {
		check(fmt.Errorf("%s", at), what)
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
	if l.Whole {
		without := ""
		if l.Status || !l.Stored {
			without = "status"
		}
		compare(wanted, created, without, false, what+": create")
	}
	if !l.Stored {
		fmt.Println(what)
		return
	}
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
	if l.Status && l.Whole {
		writeStatus(ctx, c, l, wanted, name, what)
	}
	zero := int64(0)
	check(c.Delete().NamespaceIfScoped(ns, l.Namespaced).Resource(l.Resource).Name(name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &zero}).Do(ctx).Error(), what+": delete")
	fmt.Println(what)
}

// writeStatus writes the status of `wanted` to what is there, until no controller has written in between.
func writeStatus(ctx context.Context, c *rest.RESTClient, l line, wanted runtime.Object, name, what string) {
	for {
		now, answer := fresh(wanted.GetObjectKind().GroupVersionKind()), fresh(wanted.GetObjectKind().GroupVersionKind())
		check(c.Get().NamespaceIfScoped("default", l.Namespaced).Resource(l.Resource).Name(name).Do(ctx).Into(now), what+": get")
		reflect.ValueOf(now).Elem().FieldByName("Status").Set(reflect.ValueOf(wanted).Elem().FieldByName("Status"))
		err := c.Put().NamespaceIfScoped("default", l.Namespaced).Resource(l.Resource).Name(name).SubResource("status").
			Body(now).Do(ctx).Into(answer)
		if errors.IsConflict(err) {
			continue
		}
		check(err, what+": status")
		compare(wanted, answer, "status", true, what+": status")
		return
	}
}

// attempt is try, with a failure as words.
func attempt(config *rest.Config, l line) (words string) {
	defer func() {
		if r := recover(); r != nil {
			said, ok := r.(failure)
			if !ok {
				panic(r)
			}
			words = string(said)
		}
	}()
	try(config, l)
	return ""
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err, "kubeconfig")
	if os.Args[2] != "" {
		config.ContentType = os.Args[2]
		config.AcceptContentTypes = os.Args[2] + ",application/json"
	}
	failed := false
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l line
		check(json.Unmarshal(in.Bytes(), &l), "standard input")
		if words := attempt(config, l); words != "" {
			fmt.Println("FAILED " + words)
			failed = true
		}
	}
	check(in.Err(), "standard input")
	if failed {
		os.Exit(1)
	}
}
