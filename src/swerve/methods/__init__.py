"""Published methods: functions that return a Campaign."""
