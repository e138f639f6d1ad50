//! The thalweg program: serve, get, put, perf, qlog, policies, demo.
