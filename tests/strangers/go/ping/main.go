// ping -c 1 HOST: one echo request, as who has no rights may send it, for an image that is made on a machine that has no ping.
// Exit status 1 without an answer.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

const (
	waits   = 5 // seconds
	request = 8
	answer  = 0
)

func ask(host string) error {
	found, err := net.ResolveIPAddr("ip4", host)
	if err != nil {
		return err
	}
	// The kernel numbers the request, sums it up, and gives us only the answers to it.
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	if err := syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: waits}); err != nil {
		return err
	}
	message := []byte{request, 0, 0, 0, 0, 0, 0, 1, 'm', 'u', 's', 't', 'e', 'r', '!', '!'}
	if err := syscall.Sendto(socket, message, 0, &syscall.SockaddrInet4{Addr: [4]byte(found.IP.To4())}); err != nil {
		return err
	}
	buffer := make([]byte, len(message))
	count, _, err := syscall.Recvfrom(socket, buffer, 0)
	if err == nil && (count < len(message) || buffer[0] != answer) {
		err = errors.New("this is no answer")
	}
	return err
}

func main() {
	if err := ask(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
