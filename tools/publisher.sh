# publisher.sh: who publishes, and where; read by the scripts that make packages. The environment overrides each.
: "${RELEASE_URL:=https://muster.example.org/releases}"               # tarballs are at RELEASE_URL/vVERSION/
: "${MAINTAINER:=The Muster authors <muster@localhost>}"              # of the Debian package
: "${WHEEL_NAME:=muster-train}"                                       # of the Python distribution; "muster" is somebody else's
export RELEASE_URL MAINTAINER WHEEL_NAME
