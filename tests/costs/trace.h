#pragma once

/* Read before every file that is compiled with -Dtrace=true, on x86-64 (meson.build): the call that gcc makes at each basic block is
 * assembled as an addition to one of a few counters, one after another. A call takes five times as long as the block it counts, and so
 * does adding to a number that the block before has just written. Every other call stays what it was. */
#ifndef __ASSEMBLER__
__asm__(".macro call target:vararg\n"
        ".ifeqs \"\\target\",\"__sanitizer_cov_trace_pc@PLT\"\n"
        "incq count_blocks + 8 * (\\@ & 15)(%rip)\n"
        ".else\n"
        "callq \\target\n"
        ".endif\n"
        ".endm\n");
#endif
