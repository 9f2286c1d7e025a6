// webserver: what Kubernetes' conformance tests want of the images httpd and nginx. It answers on port 80 with the
// folder's files, index.html for the folder itself, and 404 where a file is missing: a test takes index.html away to make a
// pod unready. (net/http's own file server redirects that name, and lists a folder that lacks it.)
package main

import (
	"log"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"
)

const folder = "/usr/local/apache2/htdocs"

func answer(w http.ResponseWriter, r *http.Request) {
	name := path.Clean("/" + r.URL.Path)
	if name == "/" {
		name = "/index.html"
	}
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	log.Printf("%s %s", r.Method, name)
	w.Write(text)
}

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go func() { log.Fatal(http.ListenAndServe(":80", http.HandlerFunc(answer))) }()
	<-ended
}
