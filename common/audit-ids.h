/* The message ids of the audit events, made once with "systemd-id128 new". The only other place
 * they stand in is systemd/sbxctl.catalog, where each is explained; tests/unit/test-audit.c
 * compares the two. Never re-used, never changed: administrators match on them. */
#pragma once

#define AUDIT_ID_REQUEST "fb8bd6932dac4502ae98329f2e783dff"
#define AUDIT_ID_DECISION "7c9922b19e4245d8a32d5f8b3a00d2f0"
#define AUDIT_ID_REJECTED "c025c6c7204641ad8cede4588b1c3a55"
#define AUDIT_ID_START "c7f8a404b9ee4d8bb6094ea10fa1280f"
#define AUDIT_ID_END "1834b2776f894c5bbc2a0cf09d629307"
#define AUDIT_ID_SAVED "06c58d6dbcc846ad91e085b0ee645890"
#define AUDIT_ID_CLEANUP "a6f9153cf261463fbc52efd749aae1c3"
#define AUDIT_ID_SWEEP "6d105e49976f48dcb60ef3e9ba4ad546"
#define AUDIT_ID_HELD_BACK "65298366f84d44b49cbc9f0f03222ff3"
#define AUDIT_ID_CONNECTION "67c9d505b1a94fceadbf7f3d0a4e02e1"
#define AUDIT_ID_PACKAGES "7f57ba1504ca4eb68fed50851625bcfb"
#define AUDIT_ID_MARKED "5d0c4e2f9b7a4c1e8f6d3a2b1c0e9f87"
#define AUDIT_ID_PULL "c205fcaec4e3458692dae900a70aced0"
