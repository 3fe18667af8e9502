# The tests that `make nightly` runs and `make test` does not: PART REGEX..., each a regular expression of
# names LABEL.NAME. They take long, ask one engine what another one was asked before, or show what the
# core shows with more tries. A test that is new is part of `make test`.
set(nightly_parts engines long packages go)

# Asks the rest of the engines what the core asks of one or two; and attacks with more tries.
set(nightly_engines
  "(adversary|e2e|engines)\\..*-long(est)?"
  "adversary\\.(bomb-handles|tricks-crowd)"
  "engines\\.slices-(crun|rootless|containerd)-(limits|exec|refused|not-made)"
  "engines\\.slices-(docker|podman|cri)-(exec|refused|not-made)"
  "engines\\.slices-(crun|docker)-numbers"
  "engines\\.live-(podman|containerd)-.*"
  "engines\\.live-docker-sets"
  "engines\\.hostile-(crun|rootless)-.*"
  "engines\\.compute-(rootless|containerd)-.*"
  "engines\\.compute-docker-priority"
  "engines\\.lives-crun-upgrades"
  "engines\\.filter-(crun|rootless)-(environment|restored|program)"
  "engines\\.doctor-hung"
  "e2e\\.hook-crun-.*")

set(nightly_long
  "adversary\\.flips-many"
  "e2e\\.calibrate-(models|interrupted)"
  "e2e\\.report-.*"
  "e2e\\.dashboards-loaded"
  "e2e\\.exporter-stranger"
  "e2e\\.page-looks"
  "e2e\\.gpu-(kit|lease)-.*"
  "e2e\\.cuda-kit"
  "e2e\\.compute-(used|top|late)"
  "e2e\\.every-file-thorough"
  "e2e\\.compute-idle-(asked|restart|schedule|preempt)"
  "e2e\\.(model|differential)-.*-550")

set(nightly_packages
  "e2e\\.(package|rpm|quickstart|tutorial|sim-image)-.*"
  "e2e\\.release-sbom"
  "e2e\\.image-copies")

set(nightly_go
  "e2e\\.nvidia-plugin-.*"
  "e2e\\.nvml-go")

# cgpu_nightly_part(TEST VARIABLE): ";nightly-PART" of the part that has the test, or nothing.
function(cgpu_nightly_part test variable)
  set(${variable} "" PARENT_SCOPE)
  foreach(part IN LISTS nightly_parts)
    foreach(regex IN LISTS nightly_${part})
      if(test MATCHES "^${regex}$")
        set(${variable} ";nightly-${part}" PARENT_SCOPE)
        set_property(GLOBAL APPEND PROPERTY NIGHTLY_USED ${regex})
      endif()
    endforeach()
  endforeach()
endfunction()

# cgpu_check_nightly(): an expression that no test's name matches is an error.
function(cgpu_check_nightly)
  get_property(used GLOBAL PROPERTY NIGHTLY_USED)
  foreach(part IN LISTS nightly_parts)
    foreach(regex IN LISTS nightly_${part})
      if(NOT regex IN_LIST used)
        message(FATAL_ERROR "tests/nightly.cmake: no test is called ${regex}")
      endif()
    endforeach()
  endforeach()
endfunction()
