// sshd -f FOLDER/FILE: what mpirun needs of an ssh server, for an image that is made of this machine's programs.
//
// Listens on port 2222, lets in who has a key of FOLDER/.ssh/authorized_keys, and runs the command that is asked for.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

func isAuthorized(path string, key ssh.PublicKey) bool {
	rest, err := os.ReadFile(path)
	for err == nil {
		var known ssh.PublicKey
		known, _, _, rest, err = ssh.ParseAuthorizedKey(rest)
		if err == nil && string(known.Marshal()) == string(key.Marshal()) {
			return true
		}
	}
	return false
}

// perform runs a command with the channel as its standard streams and tells how it ended.
func perform(channel ssh.Channel, command string) {
	var ended struct{ Status uint32 }
	process := exec.Command("/bin/sh", "-c", command)
	process.Stdout, process.Stderr = channel, channel.Stderr()
	input, err := process.StdinPipe()
	if err == nil {
		go func() {
			_, _ = io.Copy(input, channel)
			input.Close()
		}()
		err = process.Run()
	}
	var failure *exec.ExitError
	if errors.As(err, &failure) {
		ended.Status = uint32(failure.ExitCode())
	} else if err != nil {
		ended.Status = 255
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(&ended))
	channel.Close()
}

func serve(connection net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		log.Print(err)
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, asked, err := offered.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range asked {
				var wanted struct{ Command string }
				known := request.Type == "exec" && ssh.Unmarshal(request.Payload, &wanted) == nil
				if known {
					log.Print(wanted.Command)
					go perform(channel, wanted.Command)
				}
				if request.WantReply {
					_ = request.Reply(known, nil)
				}
			}
		}()
	}
}

func main() {
	file := flag.String("f", "", "a file in the home folder")
	flag.Bool("De", false, "as sshd has it: stay in the foreground")
	flag.Parse()
	keys := filepath.Join(filepath.Dir(*file), ".ssh", "authorized_keys")
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if isAuthorized(keys, key) {
			return nil, nil
		}
		return nil, errors.New("this key is not in " + keys)
	}}
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(secret)
	if err != nil {
		log.Fatal(err)
	}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", ":2222")
	if err != nil {
		log.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(connection, config)
	}
}
