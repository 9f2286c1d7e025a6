#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* crowd: a process with 64 connections that creates pods over HTTP, gang by gang, each connection
 * one object at a time. Pods are p-0, p-1, ...; gang i is the PodGroup g-i. Every pod asks for a
 * CPU and a GiB, and for a GPU unless `no_gpus`. Bare, it makes no groups and binds each pod itself
 * once it is created, eight in a row to a node. */
#define CROWD_CLIENTS 64

struct crowd {
    size_t gangs;
    size_t size; /* of a gang; 1: pods without one */
    bool bare;
    bool no_gpus;
    size_t nodes; /* node-00000 and on */
    double rate;  /* pods a second; 0: as fast as they are answered */
    const char *token;
    double *began_s; /* by pod: when its create was sent, on the clock of bench_now_s(); shared */
    pid_t pid;
    int go; /* pipe to the process */
};

/* Forks: before there are threads. */
void crowd_begin(struct crowd *crowd);
/* The server listens there, in the clear. */
void crowd_go(struct crowd *crowd, uint16_t port);
/* False: the process is still at work. True: it is gone, and so is what was shared. */
bool crowd_end(struct crowd *crowd);
