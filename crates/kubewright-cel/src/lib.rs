//! CEL as Kubernetes runs it.
