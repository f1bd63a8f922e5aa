"""The public face: `ForgetfulStore`, its methods by content."""
