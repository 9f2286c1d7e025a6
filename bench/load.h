#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* load: what an API server is asked under measurement, ours and others': durable creates by 1 and
 * by 64 clients, gets, a list of all pods, the fan-out of a change to 1,000 watchers. The clients
 * are one thread on the server's own cores: a figure is what a machine gives to both. */
#define LOAD_PODS    13000
#define LOAD_CLIENTS 64

#define TARGET_PIDS_MAX 2

/* A server that is running. */
struct target {
    const char *name;
    const char *token;
    uint16_t tls_port;
    uint16_t plain_port;         /* 0: none */
    pid_t pids[TARGET_PIDS_MAX]; /* its processes; 0: unused */
};

/* What is wanted of a server; 0: nothing is printed beside the figure. */
struct budget {
    double creates; /* a second */
    double create_p99_ms;
    double gets;
    double list_tls; /* MB/s */
    double list_plain;
    double fanout_ms;
    double memory_mb;
};

/* Runs everything and prints it, a line a figure. */
void load_measure(const struct target *target, const struct budget *budget);
/* Creates the pods only, to stay: bound to nothing and asking for what no node here has. */
void load_fill(const struct target *target);
/* The gets and the list alone, of a server that answers everything alike. */
void load_measure_null(const struct target *target);

/* Resident memory of its processes. */
double target_memory_mb(const struct target *target);
